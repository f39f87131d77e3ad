"""The Python environment of the training loops: build/live/venv, made once for each requirements.txt."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
REQUIREMENTS = Path(__file__).with_name("requirements.txt")
VENV = ROOT / "build" / "live" / "venv"
OLDEST = (3, 11)


def ensure() -> Path:
    """Make the environment where it is missing or of other requirements; its Python."""
    python = VENV / "bin" / "python"
    stamp = VENV / "requirements.txt"  # the content that it was made from
    wanted = REQUIREMENTS.read_text()
    if stamp.is_file() and stamp.read_text() == wanted:
        return python
    if sys.version_info < OLDEST:
        raise SystemExit(f"the training loops need Python {OLDEST[0]}.{OLDEST[1]} or later")
    print(f"installing the libraries of the training loops into {VENV.relative_to(ROOT)}", file=sys.stderr)
    subprocess.run([sys.executable, "-m", "venv", "--clear", str(VENV)], check=True)
    install(python, "--no-deps", "--requirement", str(REQUIREMENTS))
    stamp.write_text(wanted)
    return python


def install(python: Path, *arguments: str) -> None:
    """Call pip; DeepSpeed's own kernels are left out, for they need a compiler of CUDA."""
    command = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *arguments]
    subprocess.run(command, check=True, env=os.environ | {"DS_BUILD_OPS": "0"})
