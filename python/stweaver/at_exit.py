"""Work for the end of the process: also of one that multiprocessing forks, which never comes to atexit."""

import atexit
import os
from collections.abc import Callable
from multiprocessing import util

from stweaver import job

Work = Callable[[], None]

_registered: dict[Work, None] = {}


def register(work: Work) -> None:
    """Let it be done once, however often it is asked for; what was registered last comes first."""
    if work in _registered:
        return
    _registered[work] = None
    atexit.register(_do, work)
    _finalize(work)


def _finalize(work: Work) -> None:
    if job.is_forked_helper():
        util.Finalize(None, _do, (work,), exitpriority=0)


def _finalize_all(_: object) -> None:
    """Once more: as such a process begins its work, multiprocessing forgets what was registered before."""
    for work in _registered:
        _finalize(work)


def _do(work: Work) -> None:
    if work in _registered:
        del _registered[work]
        work()


util.register_after_fork(register, _finalize_all)
os.register_at_fork(after_in_child=_registered.clear)
