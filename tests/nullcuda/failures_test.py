"""Calls of the driver that fail: the job under STWeaver ends as it would under PyTorch, or goes on."""

import pytest
from runs import PROGRAMS, Run

pytest_plugins = ["runs"]

STEPS = "30"
OUT_OF_MEMORY = 2
UNKNOWN = 999
ECC = 214


def outcome(null_run: Run, way: str, fail: str, *options: str) -> tuple[int, str]:
    """Return the exit status, and the last line of standard error."""
    done = null_run(PROGRAMS / "train_layers.py", way, STEPS, options=("--fail", fail, *options))
    return done.returncode, (done.stderr.splitlines() or [""])[-1]


@pytest.mark.parametrize(
    "fail",
    [
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
    ],
)
def test_a_job_goes_on_where_only_calls_of_ours_fail(null_run: Run, fail: str) -> None:
    assert outcome(null_run, "default", fail)[0] == 0
    status, line = outcome(null_run, "stweaver", fail)
    assert status == 0, line


@pytest.mark.parametrize("nth", [2, 4, 8])
def test_a_cuda_malloc_that_fails_once_is_tried_again(null_run: Run, nth: int) -> None:
    fail = f"cudaMalloc@{nth}={OUT_OF_MEMORY}"
    assert outcome(null_run, "default", fail)[0] == 0
    status, line = outcome(null_run, "stweaver", fail)
    assert status == 0, line


@pytest.mark.parametrize("fail", [f"*@3000+={ECC}", f"*@9000+={UNKNOWN}"])
def test_a_device_that_is_lost_ends_the_job_with_an_error_and_not_with_a_signal(
    null_run: Run, fail: str
) -> None:
    assert outcome(null_run, "default", fail)[0] == 1
    status, line = outcome(null_run, "stweaver", fail)
    assert status == 1, line


def test_too_little_memory_is_out_of_memory_as_under_pytorch(null_run: Run) -> None:
    for way in ("default", "stweaver"):
        done = null_run(PROGRAMS / "train_layers.py", way, STEPS, options=("--memory", "600"))
        assert done.returncode == 1
        assert "torch.OutOfMemoryError: CUDA out of memory." in done.stderr


def test_events_that_stay_open_cost_memory_and_nothing_else(null_run: Run) -> None:
    done = null_run(PROGRAMS / "train_layers.py", "stweaver", STEPS, options=("--events", "delay:100000"))
    assert done.returncode == 0, done.stderr[-2000:]
