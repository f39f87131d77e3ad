"""STWeaver in other people's training loops. Import the one that you use: each needs its library.

from stweaver.integrations.transformers import StweaverCallback
from stweaver.integrations.lightning import StweaverCallback
"""

from collections.abc import Collection
from functools import cache
from typing import Any

from stweaver import console, session

# What is logged unless more is asked for: a loop that prints its numbers has little room.
LOGGED = (
    "peak_requested_bytes",
    "peak_reserved_bytes",
    "step_peak_reserved_bytes",
    "step_efficiency",
    "step_seconds",
    "follows_plan",
)


def enable(**options: Any) -> None:  # noqa: ANN401  (those of enable)
    """Begin as stweaver.enable() does; in a forked child, where that cannot be, only say so."""
    if session.is_forked():
        _say_that_it_is_forked()
    else:
        session.enable(**options)


def numbers(names: Collection[str] | None) -> dict[str, int | float]:
    """Give what is logged; in a forked child there is nothing."""
    if session.is_forked():
        _say_that_it_is_forked()
        return {}
    return session.stats().flat("stweaver/", names)


@cache  # once
def _say_that_it_is_forked() -> None:
    console.say("not enabled here: this process was forked from one where it was; it runs on plain PyTorch")
