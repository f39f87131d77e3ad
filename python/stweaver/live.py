"""`stweaver run --live`: a rank tells how it is, and a process beside the job shows it on standard error.

The job is the process that it would be without: the one that shows is neither its parent nor its child. They
speak by datagrams, a line of text in each, so that nobody ever waits for the other.
"""

import contextlib
import os
import select
import shutil
import signal
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple, NoReturn, TextIO

from stweaver.error import Error
from stweaver.statistics import GIB, Stats

PERIOD = 1.0  # seconds between two looks
LINE_PERIOD = 60.0  # seconds between two lines where standard error is no terminal
_MOST_BYTES = 1000


class Target(NamedTuple):
    """Who tells, and where to: the value of STWEAVER_LIVE."""

    rank: int
    path: Path

    @classmethod
    def parse(cls, text: str) -> "Target":
        """Read str(self)."""
        rank, _, path = text.partition(":")
        if not rank.isdecimal() or not path:
            raise Error(f"STWEAVER_LIVE={text!r}: must be RANK:PATH, as `stweaver run --live` sets it")
        return cls(int(rank), Path(path))

    def __str__(self) -> str:
        """Write it for the environment."""
        return f"{self.rank}:{self.path}"


def line(stats: Stats, rank: int | None = None) -> str:
    """Say how it goes, of the device that holds most; empty where none holds anything."""
    if not stats.devices:
        return ""
    device = max(stats.devices, key=lambda device: device.reserved)
    step = device.last_step if device.steps > 0 else device.step
    peaks = step.peaks
    who = (f"rank {rank}, " if rank is not None else "") + (
        f"device {device.device}, " if len(stats.devices) > 1 else ""
    )
    return (
        f"{who}step {device.steps} | {peaks.requested / GIB:.2f} GiB asked for, "
        f"{peaks.reserved / GIB:.2f} GiB reserved ({100 * peaks.efficiency:.1f} %) | {device.stage} | "
        f"{step.nanoseconds / 1e6:.1f} ms per step in STWeaver"
    )


# ---- in the job ----


class Teller:
    """A thread that tells how it goes, until stop() or until nobody listens any more."""

    def __init__(self, path: Path, tell: Callable[[], str], period: float = PERIOD) -> None:
        """Begin."""
        self._path, self._tell, self._period = path, tell, period
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="stweaver-live", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End, with one last line."""
        self._stopped.set()
        self._thread.join()

    def _run(self) -> None:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as to_listener:
            to_listener.setblocking(False)
            is_last = False
            while not is_last:
                is_last = self._stopped.wait(self._period)
                try:
                    if words := self._tell():
                        to_listener.sendto(words.encode()[:_MOST_BYTES], os.fspath(self._path))
                except BlockingIOError:  # it has not read the last ones yet
                    continue
                except (OSError, Error):
                    return


# ---- beside the job ----


def start(rank: int) -> Target:
    """Start the process that shows what `rank` of this process, which is about to become the job, tells.

    Raises:
        Error: there can be no socket.
    """
    folder = Path(tempfile.mkdtemp(prefix="stweaver-"))
    target = Target(rank, folder / "live")
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    try:
        listener.bind(os.fspath(target.path))
        job = os.pidfd_open(os.getpid())
    except OSError as error:  # a path that is too long, or a kernel before Linux 5.3
        shutil.rmtree(folder, ignore_errors=True)
        raise Error(f"--live cannot listen at {target.path}: {error}; leave it out") from None
    sys.stdout.flush()
    sys.stderr.flush()
    child = os.fork()
    if child == 0:
        _become_listener(listener, job, folder)
    os.waitpid(child, 0)
    listener.close()
    os.close(job)
    return target


def _become_listener(listener: socket.socket, job: int, folder: Path) -> NoReturn:
    """In a child's child, which nobody waits for: show until the job has ended. Does not return."""
    status = 0
    try:
        if os.fork() > 0:
            os._exit(0)
        for ignored in ("SIGINT", "SIGQUIT", "SIGTERM", "SIGHUP", "SIGTTOU", "SIGPIPE"):
            signal.signal(signal.Signals[ignored], signal.SIG_IGN)  # the job's end is ours
        nowhere = os.open(os.devnull, os.O_RDWR)
        for unused in (sys.stdin, sys.stdout):  # whoever reads the job's output waits for its end
            os.dup2(nowhere, unused.fileno())
        with contextlib.suppress(OSError):
            show(listener, job, make_screen(sys.stderr))
        shutil.rmtree(folder, ignore_errors=True)
    except BaseException:
        status = 1
    os._exit(status)


def show(listener: socket.socket, job: int, screen: "Screen") -> None:
    """Show what comes until the process behind the file descriptor `job` has ended."""
    poll = select.poll()
    poll.register(listener, select.POLLIN)
    poll.register(job, select.POLLIN)
    while True:
        ready = {file for file, _ in poll.poll()}
        if listener.fileno() in ready:
            screen.show(listener.recv(_MOST_BYTES).decode(errors="replace"))
        elif job in ready:
            return screen.close()


class Screen:
    """Where standard error is no terminal: a line now and then."""

    def __init__(self, stream: TextIO, period: float = LINE_PERIOD) -> None:
        """Show nothing yet."""
        self._stream, self._period = stream, period
        self._next = 0.0

    def show(self, text: str) -> None:
        """Show this, unless something was shown a short while ago."""
        now = time.monotonic()
        if now >= self._next:
            self._next = now + self._period
            self._write(f"stweaver: {text}\n")

    def close(self) -> None:
        """Leave nothing behind."""

    def _write(self, text: str) -> None:
        self._stream.write(text)
        self._stream.flush()


class Terminal(Screen):
    """The lowest row of a terminal, which the others then scroll above."""

    _SAVE, _RESTORE, _CLEAR_ROW, _WHOLE_SCREEN = "\0337", "\0338", "\033[2K", "\033[r"
    _is_open = False

    def show(self, text: str) -> None:
        """Show this in place of what was there."""
        columns, rows = os.get_terminal_size(self._stream.fileno())
        if rows < 3:
            return
        # A cursor in the lowest row goes up with all the rest.
        room = "" if self._is_open else "\n\033[1A"
        self._is_open = True
        scrolled, row = f"\033[1;{rows - 1}r", f"\033[{rows};1H"
        words = f"stweaver: {text}"[: columns - 1]
        self._write(f"{room}{self._SAVE}{scrolled}{row}{self._CLEAR_ROW}{words}{self._RESTORE}")

    def close(self) -> None:
        """Give the row back."""
        if self._is_open:
            _, rows = os.get_terminal_size(self._stream.fileno())
            row = f"\033[{rows};1H"
            self._write(f"{self._SAVE}{self._WHOLE_SCREEN}{row}{self._CLEAR_ROW}{self._RESTORE}")


def make_screen(stream: TextIO) -> Screen:
    """Make what fits the stream."""
    if stream.isatty() and os.environ.get("TERM", "dumb") != "dumb":
        return Terminal(stream)
    return Screen(stream)
