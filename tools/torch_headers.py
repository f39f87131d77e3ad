"""Get the C++ headers of the CUDA builds of PyTorch, to compile adapters against them without a GPU.

    python3 tools/torch_headers.py          every release of RELEASES
    python3 tools/torch_headers.py 2.11     only this one

For each release build/torch-headers/2.X/ gets `include` (torch/include of the wheel), `cuda` (the headers of
the CUDA run time that the wheel depends on) and `wheels` (which wheels these came from). What is there is
left alone.

pip says where the wheels are, as it is configured; of a wheel of 500 to 900 MB only the part that holds the
headers is fetched, by HTTP ranges.
"""

import http.client
import io
import json
import re
import shutil
import subprocess
import sys
import time
import urllib.parse
import urllib.request
import zipfile
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any

ROOT = Path(__file__).resolve().parent.parent / "build" / "torch-headers"
RELEASES = ("2.8.0", "2.9.1", "2.10.0", "2.11.0", "2.12.1", "2.13.0")
READ_AHEAD = 4 << 20  # bytes: headers lie side by side in a wheel, so that few requests get them all
TIMEOUT = 60  # seconds without a byte

# Headers do not depend on these two; they only say which of a release's wheels is taken.
PYTHON = "3.12"
PLATFORMS = [f"manylinux{tag}_x86_64" for tag in ("_2_28", "_2_27", "_2_18", "_2_17", "2014", "2010", "1")]


class RemoteFile(io.RawIOBase):
    """A file behind an URL of which only what is read is fetched; `fetched` counts those bytes."""

    def __init__(self, url: str) -> None:
        """Raise OSError where the URL cannot be read or its server knows no ranges."""
        self._url = url
        self._position = 0
        self.fetched = 0
        with self._range(0, 0) as answer:
            self._size = int(answer.headers["Content-Range"].rpartition("/")[2])

    def _range(self, first: int, last: int) -> Any:  # noqa: ANN401  # urlopen's type is Any too
        request = urllib.request.Request(self._url, headers={"Range": f"bytes={first}-{last}"})
        answer = urllib.request.urlopen(request, timeout=TIMEOUT)
        if answer.status != 206:
            answer.close()
            raise OSError("the server of this wheel serves no ranges")
        return answer

    def readable(self) -> bool:
        """Say yes."""
        return True

    def seekable(self) -> bool:
        """Say yes."""
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Move to the byte that is read next."""
        self._position = offset + (0, self._position, self._size)[whence]
        return self._position

    def readinto(self, buffer: Any) -> int:  # noqa: ANN401  # a writable buffer, which 3.11 cannot name
        """Fetch as much as fits into `buffer`; 0 at the end of the file."""
        size = min(len(buffer), self._size - self._position)
        if size <= 0:
            return 0
        with self._range(self._position, self._position + size - 1) as answer:
            data = answer.read()
        buffer[: len(data)] = data
        self._position += len(data)
        self.fetched += len(data)
        return len(data)


def resolve(*requirements: str, dependencies: bool = False) -> list[dict[str, Any]]:
    """Return what pip would install for `requirements`, from where and with which metadata."""
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    command += ["--dry-run", "--ignore-installed", "--report", "-", "--only-binary=:all:"]
    command += ["--target", str(ROOT), "--python-version", PYTHON]  # a foreign Python needs a target
    command += [f"--platform={platform}" for platform in PLATFORMS]
    command += [] if dependencies else ["--no-deps"]
    done = subprocess.run([*command, *requirements], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"torch_headers: pip finds no {' '.join(requirements)}:\n{done.stderr.strip()}")
    found: list[dict[str, Any]] = json.loads(done.stdout)["install"]
    return found


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


def wheel_url(package: dict[str, Any]) -> str:
    """Return where pip would get a package from."""
    return str(package["download_info"]["url"])


def headers(wheel: zipfile.ZipFile) -> Iterator[tuple[zipfile.ZipInfo, PurePosixPath]]:
    """Yield the headers in the order they have in the file, each with its path below the include folder."""
    for member in sorted(wheel.infolist(), key=lambda member: member.header_offset):
        path = PurePosixPath(member.filename.partition("/include/")[2])
        if path.suffix in {".h", ".hpp", ".cuh", ".inl"} and ".." not in path.parts:
            yield member, path


def unpack_headers(url: str, folder: Path) -> int:
    """Put the headers of the wheel at `url` below `folder`; return how many bytes were fetched for it."""
    parts = urllib.parse.urlsplit(url)
    local = parts.scheme == "file"
    file = io.FileIO(urllib.request.url2pathname(parts.path)) if local else RemoteFile(url)
    with io.BufferedReader(file, READ_AHEAD) as buffered, zipfile.ZipFile(buffered) as wheel:
        for member, path in headers(wheel):
            target = folder / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(wheel.read(member))
        return file.fetched if isinstance(file, RemoteFile) else 0


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
    cuda = [wheel_url(package) for package in resolve(*cuda_requirements(torch), dependencies=True)]
    fetched = unpack_headers(wheel_url(torch), part / "include")
    fetched += sum(unpack_headers(url, part / "cuda") for url in cuda)
    wheels = sorted(url.rpartition("/")[2] for url in [wheel_url(torch), *cuda])
    (part / "wheels").write_text("\n".join(wheels) + "\n")
    part.rename(folder)
    print(f"torch {release}: {fetched / 2**20:.1f} MiB in {time.monotonic() - begin:.0f} s")


def main() -> None:
    """Get what the command line asks for."""
    known = {minor(release): release for release in RELEASES}
    wanted = sys.argv[1:] or list(known)
    if unknown := [name for name in wanted if name not in known]:
        sys.exit(f"torch_headers: no release {', '.join(unknown)}; there are: {', '.join(known)}")
    for name in wanted:
        try:
            fetch(known[name])
        except (OSError, http.client.HTTPException, zipfile.BadZipFile) as error:
            sys.exit(f"torch_headers: the headers of torch {known[name]} did not arrive: {error}")


if __name__ == "__main__":
    main()
