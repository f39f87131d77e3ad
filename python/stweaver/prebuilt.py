"""The adapters that a wheel brings: built from PyTorch's headers, one for each release, and chosen here.

They link nothing of PyTorch that is not in the process already. One adapter serves CUDA 12 and 13: of the
CUDA run time it calls four functions that are the same in both.
"""

import re
from dataclasses import dataclass
from pathlib import Path

from stweaver import layout, pytorch

CUDA = ("12", "13")

# A release by its makers: what others build calls itself 2.9.0a0+gitabc, 2.9.0+rocm6.4 and the like.
_RELEASE = re.compile(r"(\d+\.\d+)\.\d+(\+cpu|\+cu\d+)?")


@dataclass(frozen=True)
class Choice:
    """An adapter that is there, or None; and why."""

    path: Path | None
    why: str


def choose(source: str, torch: pytorch.Build) -> Choice:
    """Choose what was built from `source` ("cuda_wrapper.cc") for this PyTorch."""
    folder = layout.find().prebuilt
    releases = sorted((path.name for path in folder.glob("*.*")), key=_order)
    if not releases:
        return Choice(None, "this installation brings no adapters")
    release = _RELEASE.fullmatch(torch.version)
    if release is None:
        return Choice(None, f"PyTorch {torch.version} is no release of pytorch.org's")
    path = folder / release[1] / Path(source).with_suffix(".so")
    if not path.is_file():
        return Choice(None, f"those of the package are for PyTorch {', '.join(releases)}")
    if torch.cuda is not None and torch.cuda.partition(".")[0] not in CUDA:
        return Choice(None, f"those of the package are for CUDA {' and '.join(CUDA)}")
    if not torch.has_cxx11_abi:
        return Choice(None, "this PyTorch has the C++ ABI of before 2011")
    return Choice(path, f"came with the package, for PyTorch {release[1]}")


def _order(release: str) -> tuple[int, ...]:
    return tuple(int(part) for part in release.split("."))
