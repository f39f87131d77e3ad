"""The folder of saved plans: which are in use, and how many stay.

A job with other arguments, or an edited script, is another job with other plans: without a limit the folder
would grow with each.
"""

import contextlib
import fcntl
import os
import re
from pathlib import Path

# Of each rank of a program, the jobs whose plans stay: those that ran last. A run reads what is said of each.
MOST_JOBS = 32
_LOCK = ".lock"
_FINGERPRINT = re.compile(r"([0-9a-f]{16})[.-]")  # behind the label in the name of a file
_locks: dict[Path, int] = {}  # descriptors, by folder, to the end of the process


def claim(folder: Path, fingerprint: str) -> None:
    """Say until this process ends that it uses the plans of this job, where the file system has locks.

    A lock is on one byte of a file that is empty: whichever way a process ends, it is gone.
    """
    with contextlib.suppress(OSError):
        fcntl.lockf(_lock_of(folder), fcntl.LOCK_SH | fcntl.LOCK_NB, 1, _byte(fingerprint))


def remove_old(folder: Path, label: str, own: str) -> None:
    """Remove what is kept of all but the last jobs of this label: not of `own`, nor of one that is in use."""
    jobs: dict[str, list[Path]] = {}
    for path in folder.glob(f"{label}-*"):
        if match := _FINGERPRINT.match(path.name.removeprefix(f"{label}-")):
            jobs.setdefault(match[1], []).append(path)
    by_time = sorted(jobs, key=lambda job: max(map(_written, jobs[job])), reverse=True)
    for job in by_time[MOST_JOBS:]:
        if job == own or is_in_use(folder, job):
            continue
        for path in jobs[job]:
            with contextlib.suppress(OSError):  # another's file, or a folder that is only to be read
                path.unlink()


def remove_drafts(folder: Path, label: str) -> None:
    """Remove the drafts of files that processes which were killed have left behind."""
    for path in folder.glob(f"{label}-*.part"):
        match = _FINGERPRINT.match(path.name.removeprefix(f"{label}-"))
        if match and not is_in_use(folder, match[1]):
            path.unlink(missing_ok=True)


def is_in_use(folder: Path, fingerprint: str) -> bool:
    """Whether another process has claimed the job's plans, or may have: where nobody can tell, they stay.

    A claim of this process itself ends by it.
    """
    try:
        lock, byte = _lock_of(folder), _byte(fingerprint)
        fcntl.lockf(lock, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, byte)
        fcntl.lockf(lock, fcntl.LOCK_UN, 1, byte)
    except OSError:
        return True
    return False


def _lock_of(folder: Path) -> int:
    if folder not in _locks:
        _locks[folder] = os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    return _locks[folder]


def _byte(fingerprint: str) -> int:
    return int(fingerprint, 16) >> 2  # offsets in files have a bit less, and a sign


def _written(path: Path) -> float:
    """When the file was written, in seconds; 0 where another process has removed it."""
    try:
        return path.stat().st_mtime
    except OSError:
        return 0
