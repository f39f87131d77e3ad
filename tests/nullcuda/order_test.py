"""Errors of stream order, and that there are none: checking mode stops a process, with status 70."""

import pytest
from runs import PROGRAMS, null_fork

STOPPED = 70


def test_a_block_that_another_stream_still_reads_is_not_handed_out_where_record_stream_says_so() -> None:
    done = null_fork(PROGRAMS / "order.py", "told", options=("--check",))
    assert done.returncode == 0, done.stderr
    assert done.stdout == "done\n"


def test_without_record_stream_the_process_is_stopped_with_one_line() -> None:
    done = null_fork(PROGRAMS / "order.py", "untold", options=("--check",))
    assert done.returncode == STOPPED
    (line,) = [line for line in done.stderr.splitlines() if line.startswith("nullcuda: ")]
    assert "nothing orders the two" in line


@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("events", ["at_once", "random:7"])
def test_random_streams_under_stweaver_are_always_in_order(seed: int, events: str) -> None:
    done = null_fork(PROGRAMS / "random_streams.py", str(seed), options=("--check", "--events", events))
    assert done.returncode == 0, done.stderr[-2000:]
    assert int(done.stdout.split()[1]) > 0


def test_a_job_trains_under_stweaver_in_order_and_follows_a_plan() -> None:
    done = null_fork(
        PROGRAMS / "train_layers.py", "stweaver", "60", options=("--check", "--events", "random:3")
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert int(done.stdout.split()[1]) > 0


def test_blocks_that_other_streams_use_are_kept_after_stweaver_is_switched_off() -> None:
    done = null_fork(PROGRAMS / "switched_off.py", options=("--check",))
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout == "done 0\n"


def test_a_block_that_a_stream_of_another_device_uses_is_not_handed_out() -> None:
    done = null_fork(PROGRAMS / "other_device.py", options=("--devices", "2", "--events", "delay:1000"))
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout == "True\n"


def test_blocks_of_a_stream_that_is_not_pytorchs_may_outlive_it() -> None:
    done = null_fork(PROGRAMS / "foreign_stream.py", options=("--check",))
    assert done.returncode == 0, done.stderr[-2000:]
    own = 4 << 20
    assert done.stdout == f"{own} {own + 4 * own + 3 * (1 << 20)}\n{own}\n", "the others are PyTorch's own"
