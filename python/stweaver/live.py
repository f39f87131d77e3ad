"""`stweaver run --live`: a rank tells how it is, and a process beside the job shows it on standard error.

The job is the process that it would be without: the one that shows is neither its parent nor its child. They
speak by datagrams, a status in each, so that nobody ever waits for the other.
"""

import contextlib
import json
import os
import select
import shutil
import signal
import socket
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple, NoReturn, TextIO

from stweaver.error import Error
from stweaver.statistics import GIB, Stats

PERIOD = 1.0  # seconds between two looks
LINE_PERIOD = 60.0  # seconds between two lines where standard error is no terminal
_MOST_BYTES = 1000
_LEAST_ROWS = 16  # of a terminal that has room for the dashboard
_BARS = "▁▂▃▄▅▆▇█"


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


class Status(NamedTuple):
    """How it goes, of one device. Sizes are peaks of the last step, in bytes."""

    rank: str | None  # None for a job of one process
    device: int | None  # None where there is only one
    steps: int
    stage: str
    requested: int
    reserved: int
    pytorch_reserved: int | None  # what PyTorch alone would have reserved, where that is known
    planned_share: float  # of the requests of the last step
    driver_calls: int
    nanoseconds: int  # of the last step, in STWeaver

    @classmethod
    def of(cls, stats: Stats, rank: str | None = None) -> "Status | None":
        """Take that of the device that holds most; None where none holds anything."""
        if not stats.devices:
            return None
        device = max(stats.devices, key=lambda device: device.reserved)
        step = device.last_step if device.steps > 0 else device.step
        return cls(
            rank=rank,
            device=device.device if len(stats.devices) > 1 else None,
            steps=device.steps,
            stage=device.stage,
            requested=step.peaks.requested,
            reserved=step.peaks.reserved,
            pytorch_reserved=device.simulated.reserved if device.simulated else None,
            planned_share=step.served.share,
            driver_calls=step.driver_calls,
            nanoseconds=step.nanoseconds,
        )

    @classmethod
    def parse(cls, message: bytes) -> "Status":
        """Read what message() wrote."""
        return cls(*json.loads(message))

    def message(self) -> bytes:
        """Write it for the process that shows it."""
        return json.dumps(self).encode()

    def line(self) -> str:
        """Say it in one line."""
        overhead = f"{self.nanoseconds / 1e6:.1f} ms per step in STWeaver"
        return f"{self._where()} | {self._memory()} | {self.stage} | {overhead}"

    def dashboard(self, reserved: Sequence[int]) -> list[str]:
        """Say it in four lines, the last of which draws what was reserved in the steps until now."""
        alone = self.pytorch_reserved
        pytorch = "" if alone is None else f"; PyTorch alone {alone / GIB:.2f} GiB (simulated)"
        return [
            f"{self._where()} | {self.stage} | {100 * self.planned_share:.1f} % of requests planned",
            f"  memory    {self._memory()}{pytorch}",
            f"  last step {self.nanoseconds / 1e6:.1f} ms in STWeaver, {self.driver_calls} driver calls",
            f"  reserved  {sparkline(reserved)} at most {max(reserved) / GIB:.2f} GiB",
        ]

    def _where(self) -> str:
        rank = "" if self.rank is None else f"rank {self.rank}, "
        device = "" if self.device is None else f"device {self.device}, "
        return f"{rank}{device}step {self.steps}"

    def _memory(self) -> str:
        requested, reserved = self.requested / GIB, self.reserved / GIB
        share = 100 * requested / reserved if reserved > 0 else 100.0
        return f"{requested:.2f} GiB asked for, {reserved:.2f} GiB reserved ({share:.1f} %)"


def sparkline(numbers: Sequence[int]) -> str:
    """Draw each number as a bar, from 0 to the largest."""
    most = max([*numbers, 1])
    return "".join(_BARS[number * (len(_BARS) - 1) // most] for number in numbers)


# ---- in the job ----


class Teller:
    """A thread that tells how it goes, until stop() or until nobody listens any more."""

    def __init__(self, path: Path, tell: Callable[[], Status | None], period: float = PERIOD) -> None:
        """Begin."""
        self._path, self._tell, self._period = path, tell, period
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="stweaver-live", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End, after telling once more."""
        self._stopped.set()
        self._thread.join()

    def _run(self) -> None:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as to_listener:
            to_listener.setblocking(False)
            is_last = False
            while not is_last:
                is_last = self._stopped.wait(self._period)
                try:
                    if status := self._tell():
                        to_listener.sendto(status.message(), os.fspath(self._path))
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
    try:
        folder = Path(tempfile.mkdtemp(prefix="stweaver-", dir=_temporary()))
    except OSError as error:
        raise Error(f"--live has no folder for its socket: {error}; leave it out, or set TMPDIR") from None
    target = Target(rank, folder / "live")
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    try:
        listener.bind(os.fspath(target.path))
        job = os.pidfd_open(os.getpid())
    except OSError as error:  # a kernel before Linux 5.3
        shutil.rmtree(folder, ignore_errors=True)
        raise Error(f"--live cannot listen at {target.path}: {error}; leave it out") from None
    for stream in _open(sys.stdout, sys.stderr):
        stream.flush()
    child = os.fork()
    if child == 0:
        _become_listener(listener, job, folder)
    os.waitpid(child, 0)
    listener.close()
    os.close(job)
    return target


def _temporary() -> str:
    """Return a folder whose name leaves room for that of a socket, which has at most 107 bytes (unix(7))."""
    usual = tempfile.gettempdir()
    return usual if len(os.fsencode(usual)) + len("/stweaver-12345678/live") <= 107 else "/tmp"


def _become_listener(listener: socket.socket, job: int, folder: Path) -> NoReturn:
    """In a child's child, which nobody waits for: show until the job has ended. Does not return."""
    status = 0
    try:
        if os.fork() > 0:
            os._exit(0)
        for ignored in ("SIGINT", "SIGQUIT", "SIGTERM", "SIGHUP", "SIGTTOU", "SIGPIPE"):
            signal.signal(signal.Signals[ignored], signal.SIG_IGN)  # the job's end is ours
        nowhere = os.open(os.devnull, os.O_RDWR)
        for unused in _open(sys.stdin, sys.stdout):  # whoever reads the job's output waits for its end
            os.dup2(nowhere, unused.fileno())
        with contextlib.suppress(OSError):
            show(listener, job, make_screen(sys.stderr))
    except BaseException:
        status = 1
    shutil.rmtree(folder, ignore_errors=True)
    os._exit(status)


def _open(*streams: TextIO | None) -> list[TextIO]:
    """Leave out those that were closed when Python began."""
    return [stream for stream in streams if stream is not None]


def show(listener: socket.socket, job: int, screen: "Screen") -> None:
    """Show what comes until the process behind the file descriptor `job` has ended."""
    poll = select.poll()
    poll.register(listener, select.POLLIN)
    poll.register(job, select.POLLIN)
    while True:
        ready = {file for file, _ in poll.poll()}
        if listener.fileno() in ready:
            screen.show(Status.parse(listener.recv(_MOST_BYTES)))
        elif job in ready:
            return screen.close()


class Screen:
    """Where standard error is no terminal: a line now and then."""

    def __init__(self, stream: TextIO, period: float = LINE_PERIOD) -> None:
        """Show nothing yet."""
        self._stream, self._period = stream, period
        self._next = 0.0

    def show(self, status: Status) -> None:
        """Show this, unless something was shown a short while ago."""
        now = time.monotonic()
        if now >= self._next:
            self._next = now + self._period
            self._write(f"stweaver: {status.line()}\n")

    def close(self) -> None:
        """Leave nothing behind."""

    def _write(self, text: str) -> None:
        self._stream.write(text)
        self._stream.flush()


class Terminal(Screen):
    """The lowest rows of a terminal, which the others scroll above: a dashboard, or one line if it is small.

    The job writes to the same terminal and knows nothing of this, so the cursor is always left where it was.
    """

    _SAVE, _RESTORE, _CLEAR_ROW, _WHOLE_SCREEN = "\0337", "\0338", "\033[2K", "\033[r"

    def __init__(self, stream: TextIO) -> None:
        """Show nothing yet."""
        super().__init__(stream)
        self._height = 0  # rows that are ours
        self._steps = 0
        self._reserved: deque[int] = deque(maxlen=1000)  # of the steps that were seen

    def show(self, status: Status) -> None:
        """Show this in place of what was there."""
        columns, rows = os.get_terminal_size(self._stream.fileno())
        self._remember(status)
        if rows < 3:
            return
        lines = self._lines(status, columns, rows)
        room = ""
        if len(lines) != self._height:
            self.close()
            # A cursor in the lowest rows goes up with all the rest.
            room = "\n" * len(lines) + f"\033[{len(lines)}A"
            self._height = len(lines)
        top = rows - len(lines)
        drawn = "".join(
            f"{self._row(top + number)}{line[: columns - 1]}" for number, line in enumerate(lines, start=1)
        )
        self._write(f"{room}{self._SAVE}\033[1;{top}r{drawn}{self._RESTORE}")

    def close(self) -> None:
        """Give the rows back."""
        if self._height > 0:
            _, rows = os.get_terminal_size(self._stream.fileno())
            cleared = "".join(self._row(rows - number) for number in reversed(range(self._height)))
            self._write(f"{self._SAVE}{self._WHOLE_SCREEN}{cleared}{self._RESTORE}")
            self._height = 0

    def _remember(self, status: Status) -> None:
        """Keep one number for each step; the step that runs when the first arrives is the first."""
        if status.steps != self._steps or not self._reserved:
            self._reserved.append(status.reserved)
        self._steps = status.steps

    def _lines(self, status: Status, columns: int, rows: int) -> list[str]:
        if rows < _LEAST_ROWS or not (self._stream.encoding or "").lower().startswith("utf"):
            return [f"stweaver: {status.line()}"]
        room = max(1, columns - 40)  # beside the words of the same line
        lines = status.dashboard(list(self._reserved)[-room:])
        return [f"stweaver: {lines[0]}", *lines[1:]]

    def _row(self, number: int) -> str:
        """Go to the begin of a row, counted from 1, and clear it."""
        return f"\033[{number};1H{self._CLEAR_ROW}"


def make_screen(stream: TextIO) -> Screen:
    """Make what fits the stream."""
    if stream.isatty() and os.environ.get("TERM", "dumb") != "dumb":
        return Terminal(stream)
    return Screen(stream)
