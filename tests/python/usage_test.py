"""Odd usage: names, places to write to, numbers, pipes, signals. An answer, or one line and status 2."""

import fcntl
import json
import lzma
import os
import pickle
import resource
import signal
import struct
import subprocess
import termios
import threading
from pathlib import Path
from typing import Any

import pytest
from conftest import ROOT, TRACES, Answer, Run

GPT2 = TRACES / "gpt2_15b_N.pickle.xz"


def write_snapshot(path: Path, *devices: list[tuple[int, int]], settings: str = "") -> Path:
    """Write a snapshot in which each device makes requests of (size, stream), each in its own segment."""
    traces: list[list[dict[str, Any]]] = []
    for requests in devices:
        address, events = 1 << 32, []
        for size, stream in requests:
            event = {"addr": address, "size": size, "stream": stream}
            events += [event | {"action": "segment_alloc"}, event | {"action": "alloc"}]
            address += size + 512
        traces.append(events)
    document: dict[str, Any] = {"segments": [], "device_traces": traces}
    if settings:
        document["allocator_settings"] = {"PYTORCH_CUDA_ALLOC_CONF": settings}
    path.write_bytes(pickle.dumps(document))
    return path


@pytest.fixture
def small(tmp_path: Path) -> Path:
    return write_snapshot(tmp_path / "small.pickle", [(4096, 0), (512, 0), (1 << 20, 0)])


def assert_one_line(result: subprocess.CompletedProcess[str]) -> str:
    """Check that a command was refused with one line, and return the line."""
    assert (result.returncode, result.stdout) == (2, ""), result.stderr
    (line,) = result.stderr.splitlines()
    assert line.isprintable()
    return line


# ---- where the plan is written ----


def test_a_pipe_named_as_output_is_written_to_and_stays_a_pipe(
    answer: Answer, small: Path, tmp_path: Path
) -> None:
    # A device would be handled the same way, but no test should risk /dev/null.
    pipe, plan = tmp_path / "pipe", tmp_path / "small.plan"
    os.mkfifo(pipe)
    received: list[bytes] = []
    reader = threading.Thread(target=lambda: received.append(pipe.read_bytes()), daemon=True)
    reader.start()
    answer("plan", small, "-o", pipe)
    assert pipe.is_fifo()
    reader.join(10)
    answer("plan", small, "-o", plan)
    assert received == [plan.read_bytes()]


def test_a_link_named_as_output_stays_a_link(answer: Answer, small: Path, tmp_path: Path) -> None:
    target, link = tmp_path / "target.plan", tmp_path / "link.plan"
    target.write_bytes(b"old")
    link.symlink_to(target)
    answer("plan", small, "-o", link)
    assert link.is_symlink()
    assert answer("check", target, small)["ok"] is True


def test_a_plan_that_cannot_be_written_whole_leaves_the_old_one(
    stweaver: Run, small: Path, tmp_path: Path
) -> None:
    plan = tmp_path / "small.plan"
    plan.write_bytes(b"old")
    before = sorted(tmp_path.iterdir())
    # A limit on the size of files stands in for a full disk; without its signal it is an error of write().
    result = subprocess.run(
        [stweaver("--help").args[0], "plan", small, "-o", plan],
        capture_output=True,
        text=True,
        restore_signals=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (16, 16)),
    )
    assert "small.plan" in assert_one_line(result)
    assert plan.read_bytes() == b"old"
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.parametrize("place", ["missing/a.plan", ".", "no.pickle/a.plan", "/proc/a.plan", "x" * 300])
def test_where_a_plan_cannot_be_written_none_is_made(stweaver: Run, tmp_path: Path, place: str) -> None:
    missing = tmp_path / "no.pickle"  # it would be the first to be complained of
    assert "cannot be written" in assert_one_line(stweaver("plan", missing, "-o", tmp_path / place))
    assert not list(tmp_path.iterdir())


# ---- names ----


def test_a_name_with_blanks_is_read(answer: Answer, small: Path) -> None:
    assert answer("inspect", small.rename(small.with_name("a small job.pickle")))["requests"] == 3


def test_a_name_with_control_characters_does_not_break_a_line(stweaver: Run, small: Path) -> None:
    strange = small.with_name("two\nlines\x1b[31m.pickle")
    assert "two?lines?[31m.pickle" in assert_one_line(stweaver("inspect", strange))
    small.rename(strange)
    text = stweaver("compare", strange).stdout
    assert "two?lines?[31m" in text
    assert text.replace("\n", "").isprintable()
    assert json.loads(stweaver("inspect", strange, "--json").stdout)["trace"] == str(strange)


def test_a_name_that_is_not_utf8_is_shown_as_well_as_can_be(stweaver: Run, small: Path) -> None:
    strange = small.with_name("caf\udce9.pickle")  # Latin-1, as Python shows it
    small.rename(strange)
    (document,) = json.loads(stweaver("compare", strange, "--json").stdout)
    assert document["trace"] == f"{small.parent}/caf\ufffd.pickle"


@pytest.mark.parametrize(
    "arguments",
    [
        ["inspect", ""],
        ["plan", ""],
        ["plan", GPT2, "-o", ""],
        ["check", "", ""],
        ["replay", ""],
        ["replay", GPT2, "--plan", ""],
        ["compare", GPT2, ""],
    ],
)
def test_an_empty_name_is_refused(stweaver: Run, arguments: list[str | Path]) -> None:
    assert "name a file" in assert_one_line(stweaver(*arguments))


@pytest.mark.parametrize("device", ["/dev/null", "/dev/zero"])
@pytest.mark.parametrize("subcommand", ["inspect", "plan", "replay", "compare"])
def test_a_device_is_no_trace(stweaver: Run, subcommand: str, device: str) -> None:
    assert device in assert_one_line(stweaver(subcommand, device))


def test_a_trace_can_come_through_a_pipe(stweaver: Run, answer: Answer) -> None:
    command = stweaver("--help").args[0]
    with subprocess.Popen([command, "inspect", "/dev/stdin", "--json"], stdin=-1, stdout=-1) as process:
        output, _ = process.communicate(lzma.decompress(GPT2.read_bytes()))
    assert json.loads(output) | {"trace": ""} == answer("inspect", GPT2) | {"trace": ""}


# ---- numbers ----


@pytest.mark.parametrize(
    "option",
    [
        *[("--timeout", value) for value in ["-1", "nan", "inf", "1e30", "soon", ""]],
        *[("--threads", value) for value in ["0", "-1", "99999999999999999999", "two"]],
        *[("--align", value) for value in ["0", "-512", "512.5", "9223372036854775807", "big"]],
        *[("--capacity", value) for value in ["-1", "99999999999999999999", "1e9", "10GiB"]],
        *[("--device", value) for value in ["-1", "1", "99999999999999999999", "gpu"]],
    ],
    ids="=".join,
)
def test_a_number_that_makes_no_sense_is_refused(stweaver: Run, small: Path, option: tuple[str, str]) -> None:
    line = assert_one_line(stweaver("plan", small, f"{option[0]}={option[1]}"))
    assert option[0] in line
    assert len(line) < 200, "a line for people"


@pytest.mark.parametrize(
    "option",
    [
        *[("--capacity", value) for value in ["0", "-1", "99999999999999999999", "10GiB"]],
        *[("--device", value) for value in ["gpu", "cuda:", "cuda:-1", "cuda:x", "Host", ""]],
        *[("--allocator", value) for value in ["pytorch", "Native", ""]],
        *[("--timeout", value) for value in ["-1", "soon"]],
    ],
    ids="=".join,
)
def test_what_replay_cannot_do_is_refused(stweaver: Run, small: Path, option: tuple[str, str]) -> None:
    line = assert_one_line(stweaver("replay", small, f"{option[0]}={option[1]}"))
    assert option[0] in line
    assert len(line) < 200, "a line for people"


@pytest.mark.parametrize(
    ("option", "more"),
    [
        ("--plan", ["--plan", "some.plan", "--allocator", "native"]),
        ("--online", ["--online", "--allocator", "expandable"]),
        ("--capacity", ["--capacity", "1000", "--device", "cuda"]),
    ],
)
def test_options_that_contradict_each_other_are_refused(
    stweaver: Run, small: Path, option: str, more: list[str]
) -> None:
    assert option in assert_one_line(stweaver("replay", small, *more))


def test_expandable_segments_of_many_streams_are_replayed_as_they_are_simulated(
    answer: Answer, stweaver: Run, tmp_path: Path
) -> None:
    requests = [(size, stream) for stream in range(40) for size in (512 << 10, 30 << 20)]
    trace = write_snapshot(tmp_path / "streams.pickle", requests)
    (document,) = answer("compare", trace)
    replayed = answer("replay", trace, "--allocator", "expandable")
    assert replayed["reserved_peak"] == document["allocators"]["expandable"]["reserved_peak"]
    too_many = write_snapshot(tmp_path / "many.pickle", [(30 << 20, stream) for stream in range(2000)])
    assert "--capacity" in assert_one_line(stweaver("replay", too_many, "--allocator", "expandable"))


@pytest.mark.skipif(Path("/dev/nvidiactl").exists(), reason="there is a GPU")
def test_replay_on_a_gpu_that_is_not_there_is_refused(stweaver: Run, small: Path) -> None:
    assert "cuda:3" in assert_one_line(stweaver("replay", small, "--device", "cuda:3"))


@pytest.mark.parametrize("alignment", [1, 3, 512, 2 << 20, 1 << 30])
def test_any_alignment_gives_a_plan_that_holds(
    answer: Answer, small: Path, tmp_path: Path, alignment: int
) -> None:
    plan = tmp_path / "small.plan"
    peak = answer("plan", small, "--align", str(alignment), "-o", plan)["peak"]
    assert peak == sum(-(-size // alignment) * alignment for size in [4096, 512, 1 << 20])
    assert answer("check", plan, small)["ok"] is True


@pytest.mark.parametrize("options", [["--timeout", "0"], ["--threads", "1"], ["--threads", "7"]])
def test_a_plan_holds_however_little_is_spent_on_it(
    answer: Answer, tmp_path: Path, options: list[str]
) -> None:
    plan = tmp_path / "gpt2.plan"
    answer("plan", GPT2, "-o", plan, *options)
    assert answer("check", plan, GPT2)["ok"] is True


# ---- traces ----


@pytest.mark.parametrize("command", ["compare", "report"])
def test_all_traces_are_looked_for_before_the_first_is_served(
    stweaver: Run, small: Path, tmp_path: Path, command: str
) -> None:
    page = ["-o", tmp_path / "page.html"] if command == "report" else []
    result = stweaver(command, small, tmp_path / "missing.pickle", *page)
    assert "missing.pickle: cannot be opened" in assert_one_line(result)


def test_a_trace_of_one_request_is_planned_and_compared(answer: Answer, tmp_path: Path) -> None:
    trace = write_snapshot(tmp_path / "one.pickle", [(4 << 20, 0)])
    plan = answer("plan", trace)
    assert (plan["peak"], plan["ratio"]) == (4 << 20, 1)
    (document,) = answer("compare", trace)
    assert document["allocators"]["stweaver"]["hits"] == 1
    assert document["allocators"]["stweaver"]["efficiency"] == 1, "whole pages of 2 MiB"
    assert answer("replay", trace)["hits"] == 1


def test_requests_of_no_bytes_are_planned_and_compared(answer: Answer, tmp_path: Path) -> None:
    trace = write_snapshot(tmp_path / "nothing.pickle", [(0, 0), (0, 0)])
    assert isinstance(answer("plan", trace)["ratio"], (int, float))
    (document,) = answer("compare", trace)
    assert document["requested_peak"] == 0
    for allocator in document["allocators"].values():
        assert isinstance(allocator["efficiency"], (int, float))
    assert answer("replay", trace, "--online")["efficiency"] == 1
    assert answer("inspect", trace)["requests"] == 2


def test_of_several_devices_each_can_be_chosen(answer: Answer, stweaver: Run, tmp_path: Path) -> None:
    devices = [[(512, 0)], [], [(512, 0), (1024, 7)]]
    trace, plan = write_snapshot(tmp_path / "devices.pickle", *devices), tmp_path / "devices.plan"
    assert answer("inspect", trace)["device"] == 2, "the busiest"
    assert answer("inspect", trace, "--device", "0")["requests"] == 1
    assert "device 1" in assert_one_line(stweaver("inspect", trace, "--device", "1"))
    for device in ["0", "2"]:
        answer("plan", trace, "--device", device, "-o", plan)
        assert answer("check", plan, trace)["ok"] is True


def test_settings_that_are_new_to_us_do_not_keep_a_job_from_being_compared(
    answer: Answer, tmp_path: Path
) -> None:
    # A job under another allocator shows nothing of PyTorch's own, so that is simulated.
    for settings, source in [
        ("", "measured"),
        ("frobnicate:True", "measured"),
        ("backend:cudaMallocAsync", "simulated"),
    ]:
        trace = write_snapshot(tmp_path / "new.pickle", [(4096, 0)], settings=settings)
        (document,) = answer("compare", trace)
        assert document["allocators"]["native"]["source"] == source


def test_a_job_larger_than_any_device_is_refused_by_compare(stweaver: Run, tmp_path: Path) -> None:
    trace = write_snapshot(tmp_path / "large.pickle", [(1 << 44, 0), (1 << 50, 0)])
    assert "large.pickle" in assert_one_line(stweaver("compare", trace))
    assert stweaver("plan", trace).returncode == 0, "a plan needs no device"


# ---- a person at a terminal ----


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["inspekt", GPT2], "inspekt: no such subcommand; see stweaver --help"),
        (["inspect", "--jsn", GPT2], "--jsn; see stweaver inspect --help"),
        (["plan"], "TRACE is required; see stweaver plan --help"),
        ([], "see stweaver --help"),
    ],
)
def test_who_asks_wrongly_is_told_where_to_look(
    stweaver: Run, arguments: list[str | Path], words: str
) -> None:
    assert assert_one_line(stweaver(*arguments)).endswith(words)


def test_progress_keeps_to_one_row_and_makes_room_for_the_answer(stweaver: Run, tmp_path: Path) -> None:
    instance, columns = tmp_path / f"{'long' * 30}.csv", 40
    os.mkfifo(instance)
    command = stweaver("--help").args[0]
    ours, theirs = os.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    with subprocess.Popen([command, "plan", instance], stdout=theirs, stderr=theirs):
        os.close(theirs)
        with instance.open("w") as file:
            told = os.read(ours, 1000)  # progress; it waits for the instance meanwhile
            file.write("id,lower,upper,size\na,0,1,1\n")
        while part := read_or_nothing(ours):
            told += part
    os.close(ours)
    progress, wiped, answered = told.decode().rpartition("\r\033[K")
    assert wiped, "before the answer"
    assert "1 request, planned" in answered
    for row in progress.split("\r\033[K")[1:]:
        assert row.startswith("planning /")
        assert " ... " in row
        assert len(row) < columns


def read_or_nothing(terminal: int) -> bytes:
    """Read from a terminal; nothing once its last program has ended."""
    try:
        return os.read(terminal, 1000)
    except OSError:
        return b""


# ---- pipes and signals ----


def test_a_reader_that_leaves_early_ends_the_command_quietly(stweaver: Run) -> None:
    command = stweaver("--help").args[0]
    with subprocess.Popen([command, "inspect", GPT2], stdout=-1, stderr=-1) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == -signal.SIGPIPE


def test_an_interrupt_while_it_reads_ends_the_command_at_once_and_leaves_nothing(
    stweaver: Run, tmp_path: Path
) -> None:
    command = stweaver("--help").args[0]
    endless = tmp_path / "endless.csv"
    os.mkfifo(endless)
    arguments = [command, "plan", endless, "-o", tmp_path / "placed.csv"]
    with (
        subprocess.Popen(arguments, stdout=-1, stderr=-1) as process,
        endless.open("w"),  # waits until the command has opened it, too
    ):
        process.send_signal(signal.SIGINT)
        output, complaint = process.communicate(timeout=10)
    assert (process.returncode, output, complaint) == (-signal.SIGINT, b"", b"")
    assert list(tmp_path.iterdir()) == [endless]


@pytest.mark.parametrize("arguments", [["inspect", GPT2], ["doctor"], ["replay", GPT2], ["compare", GPT2]])
def test_standard_output_that_is_closed_is_an_error(stweaver: Run, arguments: list[str | Path]) -> None:
    command = stweaver("--help").args[0]
    result = subprocess.run(
        ["/bin/sh", "-c", '"$0" "$@" >&-', command, *arguments], capture_output=True, text=True, cwd=ROOT
    )
    assert "standard output" in assert_one_line(result)
