"""`stweaver run --live`: it shows how the job goes, and the job is what it would be without."""

import io
import os
import pty
import re
import select
import socket
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest
import stweaver
from conftest import ROOT, Run
from package_api_test import device
from stweaver import live, statistics

STATUS = (
    r"stweaver: {}step \d+ \| \d+\.\d\d GiB asked for, \d+\.\d\d GiB reserved \(\d+\.\d %\) \| [a-z]+ \| "
    r"\d+\.\d ms per step in STWeaver"
)
# Without an optimizer, whose first use takes as long to import as PyTorch itself.
JOB = """
import stweaver, sys, threading, time, torch
weight = torch.ones(1 << 20)
for step in range(15):
    weight -= 0.1 * torch.ones_like(weight)
    stweaver.mark_step()
    print("loss", step, flush=True)
    time.sleep(0.1)
print([thread.name for thread in threading.enumerate()])
sys.exit(7)
"""
PRINTED = [f"loss {step}" for step in range(15)]
RUN = ("-m", "stweaver", "run", "--no-plan", "--device", "cpu", "--quiet")


STEP = live.Status(
    rank=None,
    device=None,
    steps=7,
    stage="following",
    requested=12 << 30,
    reserved=15 << 30,
    pytorch_reserved=None,
    planned_share=0.998,
    driver_calls=3,
    nanoseconds=1_200_000,
)


def test_a_status_is_of_the_last_step_and_the_device_that_holds_most() -> None:
    stats = statistics.parse({"devices": [device(0, follows=1)]})
    step = " | 0.00 GiB asked for, 0.00 GiB reserved (80.0 %) | following | 0.0 ms per step in STWeaver"
    one = live.Status.of(stats)
    assert one is not None
    assert one.line() == f"step 7{step}"
    fullest = replace(stats.devices[0], device=3, reserved=9)
    both = live.Status.of(replace(stats, devices=(stats.devices[0], fullest)), rank="2")
    assert both is not None
    assert both.line() == f"rank 2, device 3, step 7{step}"
    assert live.Status.of(statistics.parse({})) is None


def test_a_status_comes_as_it_was_sent() -> None:
    for status in (STEP, STEP._replace(rank="3", device=1, pytorch_reserved=20 << 30)):
        assert live.Status.parse(status.message()) == status


def test_a_dashboard_has_four_lines() -> None:
    simulated = STEP._replace(pytorch_reserved=20 << 30)
    assert simulated.dashboard([0, 15 << 30, 30 << 30]) == [
        "step 7 | following | 99.8 % of requests planned",
        "  memory    12.00 GiB asked for, 15.00 GiB reserved (80.0 %); PyTorch alone 20.00 GiB (simulated)",
        "  last step 1.2 ms in STWeaver, 3 driver calls",
        "  reserved  ▁▄█ at most 30.00 GiB",
    ]
    assert STEP.dashboard([1])[1] == "  memory    12.00 GiB asked for, 15.00 GiB reserved (80.0 %)"


def test_where_there_is_no_terminal_a_line_comes_now_and_then() -> None:
    stream = io.StringIO()
    screen = live.Screen(stream, period=1000)
    for steps in (1, 2):
        screen.show(STEP._replace(steps=steps))
    screen.close()
    lines = [f"stweaver: {STEP._replace(steps=steps).line()}\n" for steps in (1, 3, 4)]
    assert stream.getvalue() == lines[0]
    often = live.Screen(stream, period=0)
    for steps in (3, 4):
        often.show(STEP._replace(steps=steps))
    assert stream.getvalue() == "".join(lines)


def read_all(terminal: int) -> str:
    """Return what a terminal shows; the kernel may pass it on in parts."""
    parts = []
    while select.select([terminal], [], [], 0.3)[0]:
        parts.append(os.read(terminal, 1 << 16))
    return b"".join(parts).decode()


def test_of_a_terminal_that_gets_small_it_keeps_one_row() -> None:
    ours, theirs = pty.openpty()
    with os.fdopen(theirs, "w", encoding="utf-8") as stream:
        screen = live.Terminal(stream)
        for rows, cleared, scrolled in ((24, 4, "\033[1;20r"), (15, 4 + 1, "\033[1;14r")):
            subprocess.run(["stty", "rows", str(rows), "cols", "60"], stdin=stream, check=True)
            screen.show(STEP)
            text = read_all(ours)
            assert (text.count("\033[2K"), scrolled in text) == (cleared, True)
    os.close(ours)


def test_everything_that_is_told_before_the_job_ends_is_shown(tmp_path: Path) -> None:
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    listener.bind(str(tmp_path / "live"))
    stream = io.StringIO()
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as job:
        told: list[live.Status | None] = [None]
        teller = live.Teller(tmp_path / "live", lambda: told[-1], period=0.01)
        told.append(STEP)
        file = os.pidfd_open(job.pid)
        shown = threading.Thread(target=live.show, args=(listener, file, live.Screen(stream, period=0)))
        shown.start()
        while "step 7" not in stream.getvalue():
            pass
        told.append(STEP._replace(steps=8))
        teller.stop()
        assert job.stdin is not None
        job.stdin.close()
        shown.join(timeout=60)
    assert not shown.is_alive()
    steps = re.findall(r"step (\d)", stream.getvalue())
    assert (steps[0], steps[-1]) == ("7", "8")
    listener.close()
    os.close(file)


def test_where_nobody_listens_nothing_is_told(tmp_path: Path) -> None:
    teller = live.Teller(tmp_path / "live", lambda: STEP, period=0.01)
    teller._thread.join(timeout=60)
    assert not teller._thread.is_alive()
    teller.stop()


@pytest.mark.parametrize("text", ["", "0", "0:", "x:/tmp/live", "-1:/tmp/live"])
def test_a_variable_that_names_no_socket_is_an_error(text: str) -> None:
    with pytest.raises(stweaver.Error, match="must be RANK:PATH"):
        live.Target.parse(text)
    assert live.Target.parse("3:/tmp/a:b") == live.Target(3, Path("/tmp/a:b"))


def test_a_job_prints_and_ends_as_without_it(python: Run, tmp_path: Path) -> None:
    done = python(*RUN, "--live", "--", sys.executable, "-c", JOB, TMPDIR=tmp_path)
    assert done.returncode == 7
    assert done.stdout.splitlines() == [*PRINTED, "['MainThread', 'stweaver-live']"]
    lines = [line for line in done.stderr.splitlines() if "building the cpu adapter" not in line]
    assert len(lines) == 1, done.stderr
    assert re.fullmatch(STATUS.format(""), lines[0])
    assert list(tmp_path.glob("stweaver-*")) == []


def test_without_it_there_is_no_thread_of_ours(python: Run) -> None:
    done = python(*RUN, "--", sys.executable, "-c", JOB)
    assert done.stdout.splitlines() == [*PRINTED, "['MainThread']"]
    assert done.stderr == ""


@pytest.mark.parametrize(("rank", "shown"), [((), "rank 0, "), (("1",), "rank 1, ")])
def test_of_several_ranks_one_is_shown(
    python: Run, tmp_path: Path, rank: tuple[str, ...], shown: str
) -> None:
    script = tmp_path / "job.py"
    script.write_text(JOB.replace("sys.exit(7)", ""))
    torchrun = ("-m", "torch.distributed.run", "--nproc-per-node", "2", "--master-port", "0")
    done = python(*RUN, "--live", *rank, "--", sys.executable, *torchrun, script)
    assert done.returncode == 0, done.stderr
    lines = [line for line in done.stderr.splitlines() if line.startswith("stweaver")]
    assert len(lines) == 1, done.stderr
    assert re.fullmatch(STATUS.format(shown), lines[0])


@pytest.mark.parametrize("closed", ["0", "1", "2", "0, 1, 2"])
def test_a_job_whose_standard_streams_are_closed_runs_and_leaves_nothing(
    python: Run, tmp_path: Path, closed: str
) -> None:
    command = [sys.executable, *RUN, "--live", "--", sys.executable, "-c", "import sys; sys.exit(7)"]
    program = f"import os; [os.close(file) for file in ({closed},)]; os.execv({sys.executable!r}, {command})"
    assert python("-c", program, TMPDIR=tmp_path).returncode == 7
    ends = time.monotonic() + 20
    while list(tmp_path.glob("stweaver-*")) and time.monotonic() < ends:
        time.sleep(0.01)
    assert list(tmp_path.glob("stweaver-*")) == []


def test_a_folder_whose_name_is_too_long_for_a_socket_is_none_for_it(python: Run, tmp_path: Path) -> None:
    (folder := tmp_path / ("x" * 100)).mkdir()
    done = python(*RUN, "--live", "--", sys.executable, "-c", "import sys; sys.exit(7)", TMPDIR=folder)
    assert (done.returncode, done.stderr) == (7, "")


def test_a_job_that_is_killed_leaves_nobody_behind(python: Run, tmp_path: Path) -> None:
    killed = JOB.replace("sys.exit(7)", "import os; os.kill(os.getpid(), 9)")
    done = python(*RUN, "--live", "--", sys.executable, "-c", killed, TMPDIR=tmp_path)
    assert done.returncode == -9
    assert list(tmp_path.glob("stweaver-*")) == [], "who shows it has the pipe until then, so it is over"


class Drawn:
    """What a job's terminal got while it ran."""

    def __init__(self, adapter_cache: Path, folder: Path, rows: int) -> None:
        """Run the job in a terminal of so many rows."""
        ours, theirs = pty.openpty()
        environment = os.environ | {"PYTHONPATH": str(ROOT / "python"), "STWEAVER_CACHE": str(adapter_cache)}
        environment |= {"TERM": "xterm", "TMPDIR": str(folder), "PYTHONIOENCODING": "utf-8"}
        subprocess.run(["stty", "rows", str(rows), "cols", "60"], stdin=theirs, check=True)
        command = [sys.executable, *RUN, "--live", "--", sys.executable, "-c", JOB]
        job = subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=environment)
        os.close(theirs)
        output = b""
        try:
            while part := os.read(ours, 1 << 16):
                output += part
        except OSError:  # the last who had the terminal is gone
            pass
        self.status = job.wait()
        os.close(ours)
        self.text = output.decode().replace("\r\n", "\n")


@pytest.mark.parametrize(("rows", "ours"), [(15, 1), (24, 4)])
def test_a_terminal_keeps_its_lowest_rows_for_it_and_gets_them_back(
    adapter_cache: Path, tmp_path: Path, rows: int, ours: int
) -> None:
    drawn = Drawn(adapter_cache, tmp_path, rows)
    assert drawn.status == 7
    assert list(tmp_path.glob("stweaver-*")) == []
    top = rows - ours
    row_numbers = range(top + 1, rows + 1)
    lines = "".join(rf"\033\[{row};1H\033\[2K([^\033]*)" for row in row_numbers)
    frame = re.compile(rf"\0337\033\[1;{top}r{lines}\0338")
    frames = list(frame.finditer(drawn.text))
    assert len(frames) >= 2
    for shown in frames:
        assert shown[1].startswith("stweaver: step ")
        assert all(len(words) < 60 for words in shown.groups())
    if ours == 4:
        assert re.fullmatch(r"  reserved  [▁▂▃▄▅▆▇█]{2,} at most \d+\.\d\d GiB", frames[-1][4])
    opening = "\n" * ours + f"\033[{ours}A"
    closing = "".join(f"\033[{row};1H\033[2K" for row in row_numbers)
    before = drawn.text[: frames[0].start()]
    assert before.endswith(opening), "a cursor in these rows goes up"
    rest = before.removesuffix(opening) + frame.sub("", drawn.text[frames[0].start() :])
    assert rest.endswith(f"\0337\033[r{closing}\0338"), repr(rest)
    printed = rest.split("\0337")[0]
    assert printed.splitlines() == [*PRINTED, "['MainThread', 'stweaver-live']"]
