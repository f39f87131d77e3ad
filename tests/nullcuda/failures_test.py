"""Calls of the driver that fail: the job under STWeaver ends as it would under PyTorch, or goes on."""

import re

import pytest
from runs import PROGRAMS, null_fork

STEPS = "30"
OUT_OF_MEMORY = 2
UNKNOWN = 999
ECC = 214


def outcome(way: str, fail: str, *options: str) -> tuple[int, str]:
    """Return the exit status, and the last line of standard error."""
    done = null_fork(PROGRAMS / "train_layers.py", way, STEPS, options=("--fail", fail, *options))
    return done.returncode, (done.stderr.splitlines() or [""])[-1]


ONLY_OURS = (
    f"cuMemCreate@1={OUT_OF_MEMORY}",
    f"cuMemCreate@9={OUT_OF_MEMORY}",
    f"cuMemCreate%1/3={OUT_OF_MEMORY}",
    f"cuMemCreate@1+={OUT_OF_MEMORY}",
    f"cuMemMap@3={UNKNOWN}",
    f"cuMemMap%2/3={UNKNOWN}",
    f"cuMemSetAccess@2={UNKNOWN}",
    f"cuMemAddressReserve@1+={OUT_OF_MEMORY}",
    f"cuMemUnmap%3/2={UNKNOWN}",
    f"cuMemRelease%4/2={UNKNOWN}",
    f"cuEventCreate@1+={OUT_OF_MEMORY}",
    f"cuEventRecord%5/3={UNKNOWN}",
    f"cuStreamWaitEvent%6/3={UNKNOWN}",
)


def test_pytorch_alone_makes_none_of_the_calls_of_ours() -> None:
    assert outcome("default", ",".join(ONLY_OURS))[0] == 0


@pytest.mark.parametrize("fail", ONLY_OURS)
def test_a_job_goes_on_where_only_calls_of_ours_fail(fail: str) -> None:
    status, line = outcome("stweaver", fail)
    assert status == 0, line


@pytest.mark.parametrize("nth", [2, 4, 8])
def test_a_cuda_malloc_that_fails_once_is_tried_again(nth: int) -> None:
    fail = f"cudaMalloc@{nth}={OUT_OF_MEMORY}"
    assert outcome("default", fail)[0] == 0
    status, line = outcome("stweaver", fail)
    assert status == 0, line


@pytest.mark.parametrize("fail", [f"*@3000+={ECC}", f"*@9000+={UNKNOWN}"])
def test_a_device_that_is_lost_ends_the_job_as_under_pytorch(fail: str) -> None:
    expected, _ = outcome("default", fail)
    assert expected != 0
    status, line = outcome("stweaver", fail)
    assert status in {1, expected}, line  # some releases of PyTorch abort at exit then


def test_too_little_memory_is_out_of_memory_as_under_pytorch() -> None:
    for way in ("default", "stweaver"):
        done = null_fork(PROGRAMS / "train_layers.py", way, STEPS, options=("--memory", "580"))
        assert done.returncode == 1
        assert "torch.OutOfMemoryError: CUDA out of memory." in done.stderr
    asked = r"^STWeaver: asked for \S+ MiB in step \d+ \(\w+\); the device has 580.00 MiB"
    assert re.search(asked, done.stderr, re.MULTILINE)
    assert re.search(r"^  Alive: .* most of it in blocks of \S+ MiB \(\d+\)", done.stderr, re.MULTILINE)
    assert "\n  What would help: recompute activations" in done.stderr


def test_observers_are_told_of_requests_that_fail_and_of_no_others() -> None:
    done = null_fork(PROGRAMS / "observed.py", options=("--memory", "1030", "--events", "delay:1000"))
    assert done.stdout == f"1 []\n[(0, {400 << 20})] True\n", done.stderr[-2000:]


def test_events_that_stay_open_cost_memory_and_nothing_else() -> None:
    done = null_fork(PROGRAMS / "train_layers.py", "stweaver", STEPS, options=("--events", "delay:100000"))
    assert done.returncode == 0, done.stderr[-2000:]
