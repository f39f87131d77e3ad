"""Get the C++ headers of the CUDA builds of PyTorch, to compile adapters against them without a GPU.

    python3 tools/torch_headers.py          every release of RELEASES
    python3 tools/torch_headers.py 2.11     only this one

For each release build/torch-headers/2.X/ gets `include` (torch/include of the wheel), `cuda` (the headers of
the CUDA run time that the wheel depends on) and `wheels` (which wheels these came from). What is there is
left alone.

pip says where the wheels are, as it is configured; of a wheel of 500 to 900 MB only the part that holds the
headers is fetched, by HTTP ranges.
"""

import re
import shutil
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "nullcuda" / "python"))
from nullcuda.error import Error

from nullcuda import wheels

ROOT = Path(__file__).resolve().parent.parent / "build" / "torch-headers"
RELEASES = ("2.8.0", "2.9.1", "2.10.0", "2.11.0", "2.12.1", "2.13.0", "2.14.1", "2.15.0")

# Headers do not depend on these two; they only say which of a release's wheels is taken.
PYTHON = "3.12"
PLATFORMS = [f"manylinux{tag}_x86_64" for tag in ("_2_28", "_2_27", "_2_18", "_2_17", "2014", "2010", "1")]


def resolve(*requirements: str, dependencies: bool = False) -> list[dict[str, Any]]:
    """Return what pip would install for `requirements` on any machine, from where and with which metadata."""
    # A foreign Python needs a target.
    options = ["--target", str(ROOT), "--python-version", PYTHON]
    options += [f"--platform={platform}" for platform in PLATFORMS]
    options += [] if dependencies else ["--no-deps"]
    return wheels.resolve(requirements, options)


def cuda_requirements(torch: dict[str, Any]) -> list[str]:
    """Return what holds the run time headers of the CUDA release that a torch wheel depends on.

    cuda_runtime_api.h includes crt/host_defines.h, which is in a wheel that torch does not ask for: of the
    compiler up to CUDA 12, of its own from CUDA 13 on.
    """
    for requirement in torch["metadata"]["requires_dist"]:
        if match := re.match(r"nvidia-cuda-runtime-cu12==(\d+\.\d+)[.\d]*", requirement):
            return [match[0], f"nvidia-cuda-nvcc-cu12=={match[1]}.*"]
        if match := re.match(r"cuda-toolkit\[.*\]==([.\d]+)", requirement):
            return [f"cuda-toolkit[cudart,crt]=={match[1]}"]
    sys.exit("torch_headers: this wheel of torch depends on no CUDA run time; is it a build for the CPU?")


def minor(release: str) -> str:
    """Return "2.11" of "2.11.0": headers do not change with the last number."""
    return release.rpartition(".")[0]


def fetch(release: str) -> None:
    """Get the headers of one release, unless they are there."""
    folder = ROOT / minor(release)
    if folder.exists():
        return
    begin = time.monotonic()
    part = ROOT / f"{folder.name}.part"  # so that half a release is never taken for a whole one
    shutil.rmtree(part, ignore_errors=True)
    # "===" compares text: 2.11.0+cpu does not match. The CUDA build has no such label.
    (torch,) = resolve(f"torch==={release}")
    cuda = [wheels.wheel_url(package) for package in resolve(*cuda_requirements(torch), dependencies=True)]
    fetched = wheels.unpack_headers(wheels.wheel_url(torch), part / "include")
    fetched += sum(wheels.unpack_headers(url, part / "cuda") for url in cuda)
    names = sorted(url.rpartition("/")[2] for url in [wheels.wheel_url(torch), *cuda])
    (part / "wheels").write_text("\n".join(names) + "\n")
    part.rename(folder)
    print(f"torch {release}: {fetched / 2**20:.1f} MiB in {time.monotonic() - begin:.0f} s")


def fetch_all(wanted: list[str]) -> None:
    """Get the headers of releases as "2.11", as far as they are not there; SystemExit when that cannot be."""
    known = {minor(release): release for release in RELEASES}
    if unknown := [name for name in wanted if name not in known]:
        sys.exit(f"torch_headers: no release {', '.join(unknown)}; there are: {', '.join(known)}")
    for name in wanted:
        try:
            fetch(known[name])
        except (*wheels.TROUBLE, Error) as error:
            sys.exit(f"torch_headers: the headers of torch {known[name]} did not arrive: {error}")


if __name__ == "__main__":
    fetch_all(sys.argv[1:] or [minor(release) for release in RELEASES])
