"""Headers out of wheels: pip says where a wheel is, and only the part that holds its headers is fetched."""

import http.client
import io
import json
import subprocess
import sys
import urllib.parse
import urllib.request
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

from nullcuda.error import Error

READ_AHEAD = 4 << 20  # bytes: headers lie side by side in a wheel, so that few requests get them all
TIMEOUT = 60  # seconds without a byte
SUFFIXES = {".h", ".hpp", ".cuh", ".inl"}


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


def resolve(requirements: Sequence[str], options: Sequence[str] = ()) -> list[dict[str, Any]]:
    """Return what pip would install for `requirements`, from where and with which metadata."""
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    command += ["--dry-run", "--ignore-installed", "--report", "-", "--only-binary=:all:", *options]
    done = subprocess.run([*command, *requirements], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise Error(f"pip finds no {' '.join(requirements)}: {done.stderr.strip()}")
    found: list[dict[str, Any]] = json.loads(done.stdout)["install"]
    return found


def wheel_url(package: dict[str, Any]) -> str:
    """Return where pip would get a package from."""
    return str(package["download_info"]["url"])


def unpack_headers(url: str, folder: Path) -> int:
    """Put the headers of the wheel at `url` below `folder`; return how many bytes were fetched for it."""
    parts = urllib.parse.urlsplit(url)
    local = parts.scheme == "file"
    file = io.FileIO(urllib.request.url2pathname(parts.path)) if local else RemoteFile(url)
    with io.BufferedReader(file, READ_AHEAD) as buffered, zipfile.ZipFile(buffered) as wheel:
        for member, path in _headers(wheel):
            target = folder / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(wheel.read(member))
        return file.fetched if isinstance(file, RemoteFile) else 0


def _headers(wheel: zipfile.ZipFile) -> Iterator[tuple[zipfile.ZipInfo, PurePosixPath]]:
    """Yield the headers in the order they have in the file, each with its path below the include folder."""
    for member in sorted(wheel.infolist(), key=lambda member: member.header_offset):
        path = PurePosixPath(member.filename.partition("/include/")[2])
        if path.suffix in SUFFIXES and ".." not in path.parts:
            yield member, path


# What fetching can raise when a registry or the network is at fault.
TROUBLE = (OSError, http.client.HTTPException, zipfile.BadZipFile)
