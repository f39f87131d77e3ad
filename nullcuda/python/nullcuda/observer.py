"""Build and load the observer, which knows the values of small tensors: one for each release of torch."""

import ctypes
import hashlib
import os
import subprocess
from importlib import metadata
from pathlib import Path

from nullcuda import build, headers
from nullcuda.error import Error

SOURCES = build.ROOT / "observer"
FLAGS = ("-std=c++20", "-O2", "-g1", "-DNDEBUG", "-Wall", "-Wextra", "-shared", "-fPIC", "-pthread")
LINKED = ("-lc10", "-ltorch_cpu", "-lc10_cuda", "-ltorch_cuda")


def library(torch: metadata.Distribution, cache: Path) -> Path:
    """Return where in `cache` the observer for `torch` is; another source or torch has another name."""
    state = hashlib.sha256(torch.version.encode())
    for path in [*sorted(SOURCES.iterdir()), build.ROOT / "values.h", Path(__file__)]:
        state.update(path.read_bytes())
    return cache / f"observer-{torch.version}-{state.hexdigest()[:16]}.so"


def compile_for(torch: metadata.Distribution, cuda: Path, target: Path) -> None:
    """Compile the observer. What it asks of null CUDA is found when it is loaded; `cuda`: CUDA's headers."""
    folder = Path(str(torch.locate_file("torch")))
    part = target.with_name(f"{target.name}.{os.getpid()}.part")
    includes = (folder / "include", folder / "include/torch/csrc/api/include", cuda)
    command = [
        *("g++", *FLAGS, *(f"-isystem{include}" for include in includes)),
        *("-o", str(part), str(SOURCES / "values.cc"), f"-L{folder / 'lib'}", *LINKED),
    ]
    variables = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
    try:
        done = subprocess.run(command, env=variables, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        raise Error("no g++ here; install a C++ compiler (Debian: apt-get install g++)") from None
    if done.returncode != 0:
        errors = [line for line in done.stderr.splitlines() if "error" in line] or [done.stderr]
        raise Error(f"the observer cannot be compiled for torch {torch.version}: {errors[0]}")
    part.rename(target)  # another process may have done the same meanwhile


def find(cache: Path | None = None) -> Path:
    """Return the observer for the torch that is installed; build it where it is not."""
    torch = build.distribution()
    root = cache or build.cache()
    found = library(torch, root)
    if not found.is_file():
        root.mkdir(parents=True, exist_ok=True)
        compile_for(torch, headers.fetch(torch, root / f"headers-{torch.version}"), found)
    return found


def start() -> None:
    """Watch torch, which has been imported."""
    ctypes.CDLL(str(find())).nullcuda_observe()
