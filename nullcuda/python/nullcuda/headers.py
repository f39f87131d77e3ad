"""The headers of the CUDA libraries that a PyTorch wheel was built for.

They come from the NVIDIA wheels that it names, installed or not: of those that are not, only the headers are
fetched. Nothing of NVIDIA's is part of this project.
"""

import contextlib
import os
import re
import shutil
from importlib import metadata
from pathlib import Path

from nullcuda import wheels
from nullcuda.error import Error

# Wheels whose headers are not C, or of which only binaries are used.
_WITHOUT_HEADERS = re.compile(r"nvidia-(nvtx|nvshmem|nvjitlink)")
# The parts of `cuda-toolkit` (CUDA 13) that hold headers: what torch asks for, and what these include.
_TOOLKIT = "cuda-toolkit[cublas,crt,cudart,cufft,cufile,cupti,curand,cusolver,cusparse,nvcc,nvrtc]"


def requirements(distribution: metadata.Distribution) -> list[str]:
    """Name the NVIDIA wheels with headers that an installed torch depends on, each with its version.

    crt/host_defines.h is in a wheel that torch does not ask for: of the compiler up to CUDA 12.
    """
    found = []
    for line in distribution.requires or []:
        requirement = re.sub(r"[ ()]", "", line.partition(";")[0])  # older wheels write "name (==version)"
        if match := re.match(r"cuda-toolkit\[.*\]==([.\d]+)", requirement):
            found.append(f"{_TOOLKIT}=={match[1]}")
        elif requirement.startswith("nvidia-") and not _WITHOUT_HEADERS.match(requirement):
            found.append(requirement)
            if match := re.match(r"nvidia-cuda-runtime-cu12==(\d+\.\d+)", requirement):
                found.append(f"nvidia-cuda-nvcc-cu12=={match[1]}.*")
    if not found:
        raise Error(f"torch {distribution.version} depends on no CUDA libraries; install a build for CUDA")
    return found


def fetch(distribution: metadata.Distribution, folder: Path) -> Path:
    """Put the headers for `distribution` into `folder`, unless they are there; return the folder."""
    if folder.is_dir():
        return folder
    part = folder.with_name(
        f"{folder.name}.{os.getpid()}.part"
    )  # so that half of them is never taken for all
    shutil.rmtree(part, ignore_errors=True)
    wanted = requirements(distribution)
    try:
        for package in wheels.resolve(wanted):
            wheels.unpack_headers(wheels.wheel_url(package), part)
        with contextlib.suppress(OSError):  # another process was faster
            part.rename(folder)
    except wheels.TROUBLE as error:
        raise Error(f"the headers of {', '.join(wanted)} did not arrive: {error}") from None
    finally:
        shutil.rmtree(part, ignore_errors=True)
    return folder
