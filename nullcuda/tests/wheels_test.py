"""wheels.py: only the headers of a wheel, by HTTP ranges."""

import threading
import zipfile
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from nullcuda import wheels

HEADERS = {
    "include/c10/core/Allocator.h": b"struct Allocator;\n",
    "include/torch/version.h": b"#define TWO 2\n",
}
OTHERS = {"lib/libtorch.so": bytes(range(256)) * 4096, "include/notes.txt": b"no header\n"}


class Server(ThreadingHTTPServer):
    """Serves one file, in ranges or, when `knows_ranges` is false, as a whole."""

    content = b""
    knows_ranges = True

    @property
    def url(self) -> str:
        """Where the file is."""
        return f"http://127.0.0.1:{self.server_port}/torch-2.0-none-any.whl"


class Handler(BaseHTTPRequestHandler):
    """Answers GET with what the Range header asks for."""

    server: Server

    def do_GET(self) -> None:
        """Send the range, or all of it."""
        first, last = map(int, self.headers["Range"].removeprefix("bytes=").split("-"))
        size = len(self.server.content)
        part = self.server.content[first : last + 1] if self.server.knows_ranges else self.server.content
        self.send_response(206 if self.server.knows_ranges else 200)
        self.send_header("Content-Length", str(len(part)))
        self.send_header("Content-Range", f"bytes {first}-{last}/{size}")
        self.end_headers()
        self.wfile.write(part)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def wheel(tmp_path: Path) -> Path:
    path = tmp_path / "torch-2.0-none-any.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        for name, content in (HEADERS | OTHERS).items():
            archive.writestr(f"torch/{name}", content)
    return path


@pytest.fixture
def server(wheel: Path) -> Iterator[Server]:
    with Server(("127.0.0.1", 0), Handler) as server:
        server.content = wheel.read_bytes()
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def unpacked(folder: Path) -> dict[str, bytes]:
    return {
        f"include/{path.relative_to(folder)}": path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def test_the_headers_of_a_wheel_arrive_and_nothing_else(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wheels, "READ_AHEAD", 4096)
    fetched = wheels.unpack_headers(server.url, tmp_path / "out")
    assert unpacked(tmp_path / "out") == HEADERS
    assert 0 < fetched < len(server.content) / 10


def test_a_wheel_on_this_machine_is_read_in_place(wheel: Path, tmp_path: Path) -> None:
    assert wheels.unpack_headers(wheel.as_uri(), tmp_path / "out") == 0
    assert unpacked(tmp_path / "out") == HEADERS


def test_a_server_without_ranges_is_an_error_and_not_a_download(server: Server, tmp_path: Path) -> None:
    server.knows_ranges = False
    with pytest.raises(OSError, match="serves no ranges"):
        wheels.unpack_headers(server.url, tmp_path / "out")
