"""Runs programs with a CUDA build of PyTorch on null CUDA (tools/cuda_torch.sh makes what that needs).

NULLCUDA_PYTHON names the Python with that PyTorch; without it, the one of the newest release.
"""

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = Path(__file__).resolve().parent / "programs"
NEWEST = "2.15.0"

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="session")
def null_python() -> Path:
    """Find the Python that has the CUDA build of PyTorch."""
    python = Path(
        os.environ.get("NULLCUDA_PYTHON", ROOT / "build" / "cuda-torch" / NEWEST / "bin" / "python")
    )
    assert python.is_file(), f"{python} is missing: run tools/cuda_torch.sh {NEWEST}"
    return python


@pytest.fixture(scope="session")
def null_run(null_python: Path, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Run a program and its arguments; `options` are those of `nullcuda run`."""
    adapters = tmp_path_factory.mktemp("adapters")
    ours = {name: value for name, value in os.environ.items() if not name.startswith("STWEAVER_")}
    ours["STWEAVER_CACHE"] = str(adapters)
    ours["PYTHONPATH"] = os.pathsep.join([str(ROOT / "nullcuda" / "python"), str(ROOT / "python")])
    ours.setdefault("NULLCUDA_CACHE", str(ROOT / "build" / "nullcuda"))
    ours["OMP_NUM_THREADS"] = "1"

    def run(
        *program: str | Path, options: tuple[str, ...] = (), seconds: float = 300
    ) -> subprocess.CompletedProcess[str]:
        command = [null_python, "-m", "nullcuda", "run", *options, "--", null_python, *program]
        return subprocess.run(
            command, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=seconds, env=ours
        )

    return run
