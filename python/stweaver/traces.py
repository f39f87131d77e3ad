"""Planning offline: a trace file or a memory snapshot, compressed or not, becomes a plan."""

import bz2
import contextlib
import gzip
import lzma
import os
import tempfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO, cast

from stweaver.error import Error
from stweaver.session import PathLike, open_library

_Opener = Callable[[Path], BinaryIO]
_UNPACKERS: dict[bytes, _Opener] = {
    b"\x1f\x8b": cast(_Opener, gzip.open),
    b"\xfd7zXZ\0": cast(_Opener, lzma.open),
    b"BZh": cast(_Opener, bz2.open),
}
_ZSTANDARD = b"\x28\xb5\x2f\xfd"
# What src/archive takes: a small file may stand for a little more.
_MOST_PACKED = 1000
_SMALL = 64 << 20  # bytes
_COMPRESSED = (".gz", ".xz", ".bz2", ".zst")


def plan(path: PathLike, output: PathLike | None = None) -> Path:
    """Plan the whole job in a trace file of ours or a snapshot of `torch.cuda.memory._dump_snapshot`.

    Args:
        path: the trace; gzip, xz and bzip2 are unpacked into a temporary file first.
        output: where the plan goes; None: beside the trace, as NAME.plan.

    Returns:
        The path of the plan. `install()` follows it.

    Raises:
        Error: the trace cannot be read or planned, or the plan not be written; one line says why.
    """
    trace = Path(path)
    target = Path(output) if output is not None else _plan_beside(trace)
    if target.exists() and trace.exists() and target.samefile(trace):
        raise Error(f"{target} is the recording itself; name another file for the plan")
    library = open_library()
    with _unpacked(trace) as plain:
        try:
            library.plan(plain, target, 0)
        except Error as error:
            raise Error(str(error).replace(os.fspath(plain), os.fspath(trace))) from None
    return target


def _plan_beside(trace: Path) -> Path:
    name = trace.name
    for suffix in _COMPRESSED:
        name = name.removesuffix(suffix)
    return trace.with_name(Path(name).stem + ".plan")


@contextlib.contextmanager
def _unpacked(trace: Path) -> Iterator[Path]:
    """Give the path of the plain trace."""
    try:
        with trace.open("rb") as file:
            head = file.read(8)
    except OSError as error:
        raise Error(f"cannot read {trace}: {error.strerror}") from None
    if head.startswith(_ZSTANDARD):
        raise Error(
            f"{trace} is compressed with Zstandard, which Python may not know; do first: unzstd {trace}"
        )
    opener = next((opener for magic, opener in _UNPACKERS.items() if head.startswith(magic)), None)
    if opener is None:
        yield trace
        return
    try:
        folder = tempfile.TemporaryDirectory(prefix="stweaver-")
    except OSError as error:
        raise Error(f"cannot unpack {trace}: {error}; do it first, or set TMPDIR") from None
    with folder as unpacked:
        plain = Path(unpacked) / trace.stem
        _unpack(opener, trace, plain)
        yield plain


def _unpack(opener: _Opener, trace: Path, plain: Path) -> None:
    most = _SMALL + _MOST_PACKED * trace.stat().st_size
    try:
        with opener(trace) as packed, plain.open("wb") as file:
            while piece := packed.read(1 << 20):
                file.write(piece)
                if file.tell() > most:
                    raise Error(
                        f"{trace}: unpacks to more than {_MOST_PACKED} times its size: "
                        "no trace is packed like that"
                    )
    except (EOFError, lzma.LZMAError, zlib.error, OSError) as error:
        raise Error(
            f"cannot unpack {trace}: {error}; is the file whole, and is there room in {plain.parent}?"
        ) from None
