"""`stweaver run --live`: it shows how the job goes, and the job is what it would be without."""

import io
import os
import pty
import re
import socket
import subprocess
import sys
import threading
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
JOB = """
import sys, threading, time, torch
weight = torch.ones(1 << 20, requires_grad=True)
optimizer = torch.optim.SGD([weight])
for step in range(15):
    weight.grad = torch.ones_like(weight)
    optimizer.step()
    print("loss", step, flush=True)
    time.sleep(0.1)
print([thread.name for thread in threading.enumerate()])
sys.exit(7)
"""
PRINTED = [f"loss {step}" for step in range(15)]
RUN = ("-m", "stweaver", "run", "--no-plan", "--device", "cpu", "--quiet")


def test_a_line_is_of_the_last_step_and_the_device_that_holds_most() -> None:
    stats = statistics.parse({"devices": [device(0, follows=1)]})
    step = " | 0.00 GiB asked for, 0.00 GiB reserved (80.0 %) | following | 0.0 ms per step in STWeaver"
    assert live.line(stats) == f"step 7{step}"
    fullest = replace(stats.devices[0], device=3, reserved=9)
    both = replace(stats, devices=(stats.devices[0], fullest))
    assert live.line(both, rank=2) == f"rank 2, device 3, step 7{step}"
    assert live.line(statistics.parse({})) == ""


def test_where_there_is_no_terminal_a_line_comes_now_and_then() -> None:
    stream = io.StringIO()
    screen = live.Screen(stream, period=1000)
    for text in ("first", "second"):
        screen.show(text)
    screen.close()
    assert stream.getvalue() == "stweaver: first\n"
    often = live.Screen(stream, period=0)
    often.show("third")
    often.show("fourth")
    assert stream.getvalue() == "stweaver: first\nstweaver: third\nstweaver: fourth\n"


def test_everything_that_is_told_before_the_job_ends_is_shown(tmp_path: Path) -> None:
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    listener.bind(str(tmp_path / "live"))
    stream = io.StringIO()
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as job:
        told = iter(("", "one", "two"))
        teller = live.Teller(tmp_path / "live", lambda: next(told), period=0.01)
        file = os.pidfd_open(job.pid)
        shown = threading.Thread(target=live.show, args=(listener, file, live.Screen(stream, period=0)))
        shown.start()
        while "one" not in stream.getvalue():
            pass
        teller.stop()
        assert job.stdin is not None
        job.stdin.close()
        shown.join(timeout=60)
    assert not shown.is_alive()
    assert stream.getvalue() == "stweaver: one\nstweaver: two\n"
    listener.close()
    os.close(file)


def test_where_nobody_listens_nothing_is_told(tmp_path: Path) -> None:
    teller = live.Teller(tmp_path / "live", lambda: "words", period=0.01)
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


def test_a_job_that_is_killed_leaves_nobody_behind(python: Run, tmp_path: Path) -> None:
    killed = JOB.replace("sys.exit(7)", "import os; os.kill(os.getpid(), 9)")
    done = python(*RUN, "--live", "--", sys.executable, "-c", killed, TMPDIR=tmp_path)
    assert done.returncode == -9
    assert list(tmp_path.glob("stweaver-*")) == [], "who shows it has the pipe until then, so it is over"


def test_a_terminal_keeps_its_lowest_row_for_it_and_gets_it_back(adapter_cache: Path, tmp_path: Path) -> None:
    ours, theirs = pty.openpty()
    environment = os.environ | {"PYTHONPATH": str(ROOT / "python"), "STWEAVER_CACHE": str(adapter_cache)}
    environment |= {"TERM": "xterm", "TMPDIR": str(tmp_path)}
    subprocess.run(["stty", "rows", "24", "cols", "60"], stdin=theirs, check=True)
    command = [sys.executable, *RUN, "--live", "--", sys.executable, "-c", JOB]
    job = subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=environment)
    os.close(theirs)
    output = b""
    try:
        while part := os.read(ours, 1 << 16):
            output += part
    except OSError:  # the last who had the terminal is gone
        pass
    assert job.wait() == 7
    os.close(ours)
    assert list(tmp_path.glob("stweaver-*")) == []
    drawn = re.compile(r"\0337\033\[1;23r\033\[24;1H\033\[2K(stweaver: [^\033]*)\0338")
    text = output.decode()
    assert len(drawn.findall(text)) >= 2
    assert all(len(words) < 60 for words in drawn.findall(text))
    rest = drawn.sub("", text).replace("\r\n", "\n")
    assert rest.startswith("\n\033[1A")
    assert rest.endswith("\0337\033[r\033[24;1H\033[2K\0338"), repr(rest)
    printed = rest.removeprefix("\n\033[1A").split("\0337")[0]
    assert printed.splitlines() == [*PRINTED, "['MainThread', 'stweaver-live']"]
