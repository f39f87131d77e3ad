"""Work for the end of the process: also of one that multiprocessing forked, which never comes to atexit."""

import atexit
from collections.abc import Callable
from multiprocessing import util

from stweaver import job

Work = Callable[[], None]

_registered: set[Work] = set()


def register(work: Work) -> None:
    """Let it be done once, however often it is asked for; what was registered last comes first."""
    if work in _registered:
        return
    _registered.add(work)
    atexit.register(_do, work)
    if job.is_helper():
        util.Finalize(None, _do, (work,), exitpriority=0)


def _do(work: Work) -> None:
    if work in _registered:
        _registered.remove(work)
        work()
