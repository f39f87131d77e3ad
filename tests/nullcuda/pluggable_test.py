"""The pluggable way, which bench/gpu tries on a GPU: what it does about the memory of CUDA graphs."""

import json

from runs import PROGRAMS, null_fork

MIB = 1 << 20


def test_a_capture_that_failed_keeps_no_memory_and_no_steps_are_lost() -> None:
    done = null_fork(PROGRAMS / "failed_capture.py")
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(done.stdout)
    assert found["requested"] < 64 * MIB
    assert found["steps"] == 20


def test_the_pool_of_a_graph_is_given_back_when_the_last_graph_in_it_is_gone() -> None:
    done = null_fork(PROGRAMS / "graph_pool.py")
    assert done.returncode == 0, done.stdout + done.stderr
    both, one, none, again = json.loads(done.stdout)
    assert both == one, "the second graph needs it still"
    assert one - none >= 64 * MIB
    assert again - none >= 64 * MIB, "a pool of the same name, filled once more, is kept once more"
