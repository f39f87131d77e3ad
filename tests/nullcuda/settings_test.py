"""STWeaver does as PyTorch's allocator was told before it came, and says where it stands aside."""

import pytest
from runs import PROGRAMS, null_python, null_run

SETTINGS = PROGRAMS / "settings.py"


def test_a_limit_that_was_set_before_holds_for_the_arena_too() -> None:
    done = null_run(SETTINGS, "limit")
    assert done.returncode == 0, done.stderr
    pieces, fraction = done.stdout.split()
    assert pieces == "2"
    assert float(fraction) == pytest.approx(0.01)


def test_nothing_is_planned_where_pytorch_is_to_cache_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    for value, words in [("1", "PYTORCH_NO_CUDA_MEMORY_CACHING is set"), ("0", "enabled")]:
        monkeypatch.setenv("PYTORCH_NO_CUDA_MEMORY_CACHING", value)
        done = null_run(SETTINGS, "uncached")
        assert done.stdout.startswith(words), done.stderr


def test_a_forked_process_is_told_that_nothing_is_planned_in_it() -> None:
    done = null_run(SETTINGS, "fork")
    assert "torch.Size([1])" in done.stdout, done.stderr
    assert done.stderr.count("STWeaver is off in this process, which was forked") == 1


def test_another_allocator_that_the_program_sets_later_is_named_at_exit() -> None:
    run = ("-m", "stweaver", "run", "--no-plan", "--", null_python(), SETTINGS, "replaced")
    done = null_run(*run)
    assert "torch.Size([1])" in done.stdout, done.stderr
    assert "stweaver: off, for the program has set another CUDA allocator: pluggable" in done.stderr
