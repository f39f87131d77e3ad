"""Runs programs with a CUDA build of PyTorch on null CUDA (tools/cuda_torch.sh makes what that needs).

NULLCUDA_PYTHON names the Python with that PyTorch; without it, the one of the newest release.
"""

import os
import subprocess
from pathlib import Path

import forks

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = Path(__file__).resolve().parent / "programs"
REQUIRED = ROOT / "tools" / "requirements-newest-torch.txt"
NEWEST = REQUIRED.read_text().rpartition("==")[2].strip()


def null_python() -> Path:
    """Find the Python that has the CUDA build of PyTorch."""
    built = ROOT / "build" / "cuda-torch" / NEWEST / "bin" / "python"
    python = Path(os.environ.get("NULLCUDA_PYTHON", built))
    assert python.is_file(), f"{python} is missing: run tools/cuda_torch.sh {NEWEST}"
    return python


def environment() -> dict[str, str]:
    """Return the variables that programs run with."""
    variables = {name: value for name, value in os.environ.items() if not name.startswith("STWEAVER_")}
    variables["STWEAVER_CACHE"] = str(ROOT / "build" / "adapters")
    variables["PYTHONPATH"] = os.pathsep.join([str(ROOT / "nullcuda" / "python"), str(ROOT / "python")])
    variables.setdefault("NULLCUDA_CACHE", str(ROOT / "build" / "nullcuda"))
    variables["OMP_NUM_THREADS"] = "1"
    return variables


def null_run(*program: str | Path, options: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
    """Run a program and its arguments; `options` are those of `nullcuda run`."""
    return forks.run_alone(null_python(), program, options, environment())


def null_fork(*program: str | Path, options: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
    """Do the same with a script and its arguments, without the time that it takes to import PyTorch."""
    return forks.run(null_python(), program, options, environment())
