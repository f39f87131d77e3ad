"""How many saved plans stay in their folder."""

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import ROOT
from stweaver import kept

LAYOUT = ("{}-{:016x}.json", "{}-{:016x}-device0.plan", "{}-{:016x}-device1.plan", "{}-{:016x}.json.x1.part")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path) -> Path:
    """Make a folder in which one job more has run than stay, the first one first."""
    for job in range(kept.MOST_JOBS + 1):
        for name in LAYOUT:
            add(tmp_path / name.format("train", job), job)
    kept.claim(tmp_path, f"{kept.MOST_JOBS:016x}")
    return tmp_path


def add(path: Path, seconds: int) -> None:
    path.touch()
    os.utime(path, (seconds, seconds))


def jobs(folder: Path, label: str = "train") -> set[int]:
    """Return those of whom all files are there."""
    found = {path.name for path in folder.iterdir()}
    return {job for job in range(100) if all(name.format(label, job) in found for name in LAYOUT)}


def test_the_plans_of_the_jobs_that_ran_last_stay(folder: Path) -> None:
    kept.remove_old(folder, "train", f"{kept.MOST_JOBS:016x}")
    assert jobs(folder) == set(range(1, kept.MOST_JOBS + 1))
    assert not list(folder.glob(LAYOUT[1].format("train", 0)))


def test_each_rank_and_program_is_counted_by_itself(folder: Path) -> None:
    for label in ("train-rank0", "train-small"):
        for name in LAYOUT:
            add(folder / name.format(label, 7), 0)
    (folder / "train-0000000000000000").touch()
    kept.remove_old(folder, "train", f"{kept.MOST_JOBS:016x}")
    assert jobs(folder, "train-rank0") == jobs(folder, "train-small") == {7}
    assert (folder / "train-0000000000000000").exists(), "no name of ours"


def test_drafts_of_processes_that_were_killed_go(folder: Path) -> None:
    kept.remove_drafts(folder, "train")
    assert not list(folder.glob("*.part"))
    assert len(list(folder.glob("*.plan"))) == 2 * (kept.MOST_JOBS + 1)


def test_what_is_in_use_stays_however_old(folder: Path) -> None:
    program = (
        "import sys; from pathlib import Path; from stweaver import kept; "
        f"kept.claim(Path({str(folder)!r}), '{0:016x}'); print(flush=True); sys.stdin.read()"
    )
    ours = {**os.environ, "PYTHONPATH": str(ROOT / "python")}
    with subprocess.Popen([sys.executable, "-c", program], stdin=-1, stdout=-1, env=ours) as other:
        assert other.stdout is not None
        other.stdout.readline()
        kept.remove_old(folder, "train", f"{kept.MOST_JOBS:016x}")
        assert 0 in jobs(folder)
        other.kill()
    kept.remove_old(folder, "train", f"{kept.MOST_JOBS:016x}")
    assert 0 not in jobs(folder)


def no_locks(*_: int) -> None:
    raise OSError(errno.ENOLCK, "No locks available")


def test_own_plans_stay_and_all_where_there_are_no_locks(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept.remove_old(folder, "train", f"{0:016x}")
    monkeypatch.setattr("fcntl.lockf", no_locks)
    kept.remove_old(folder, "train", f"{1:016x}")
    assert jobs(folder) == set(range(kept.MOST_JOBS + 1))
