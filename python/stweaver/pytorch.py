"""PyTorch, which need not be there: this package never imports it before it is needed."""

import importlib.util
import os
import re
import runpy
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stweaver.error import Error


@dataclass(frozen=True)
class Build:
    """Which PyTorch is installed: known without importing it."""

    folder: Path
    version: str
    git_version: str
    cuda: str | None  # the version of CUDA that it was built for

    @property
    def libraries(self) -> Path:
        """The folder of libc10.so."""
        return self.folder / "lib"

    @property
    def has_cxx11_abi(self) -> bool:
        """Whether its strings are those of the C++ ABI of 2011, as in all builds by its makers since 2.7."""
        return b"__cxx11" in (self.libraries / "libc10.so").read_bytes()

    @property
    def includes(self) -> Path:
        """The folder that its headers are included from."""
        return self.folder / "include"


def find() -> Build:
    """Which PyTorch this Python would import; Error when there is none."""
    loaded = sys.modules.get("torch")
    spec = loaded.__spec__ if loaded is not None else importlib.util.find_spec("torch")
    if spec is None or spec.origin is None:
        raise Error(f"{sys.executable} finds no PyTorch; install it: pip install torch")
    folder = Path(spec.origin).parent
    try:
        facts = runpy.run_path(str(folder / "version.py"))
    except OSError:
        raise Error(f"no version.py in {folder}; install PyTorch again") from None
    return Build(folder, facts["__version__"], facts.get("git_version", ""), facts.get("cuda"))


def allocator_settings() -> str:
    """Return those of PyTorch's own allocator, with the one that tells later releases (`trace/model.h`)."""
    named = os.environ.get("PYTORCH_CUDA_ALLOC_CONF") or os.environ.get("PYTORCH_ALLOC_CONF", "")
    numbers = [int(number) for number in re.findall(r"\d+", find().version)[:2]]
    return ",".join(filter(None, (named, "oldest_first:True" if numbers >= [2, 13] else "")))


def load() -> Any:  # noqa: ANN401  (a module, there or not)
    """PyTorch itself, imported; Error when that fails."""
    try:
        import torch
    except ImportError as error:
        if error.name != "torch":
            raise Error(f"{sys.executable} cannot import PyTorch: {error}; install it again") from None
    else:
        if torch.__file__ is not None:  # else it is some folder of that name
            return torch
    raise Error(f"{sys.executable} finds no PyTorch; install it: pip install torch")


def device_kind(wanted: str | None) -> str:
    """Return the kind of device to serve, `wanted` or what this machine has; Error for one that it has not.

    Does not initialize CUDA: a job may still choose its GPUs, or fork.
    """
    if wanted not in (None, "cuda", "cpu"):
        raise Error(f"device={wanted!r}: must be 'cuda', 'cpu' or None")
    if wanted == "cpu":
        return wanted
    torch = load()
    if getattr(torch.version, "cuda", None) and torch.cuda.device_count() > 0:
        return "cuda"
    if wanted == "cuda":
        raise Error(
            f"PyTorch {torch.__version__} sees no CUDA GPU; install the NVIDIA driver and a CUDA build "
            "of PyTorch, or try device='cpu'"
        )
    return "cpu"


def device_count(kind: str) -> int:
    """How many devices of the kind this process can use."""
    return int(load().cuda.device_count()) if kind == "cuda" else 1
