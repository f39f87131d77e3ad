"""The environment variables, all of them, and what they mean: the one place that says so."""

import os
from pathlib import Path
from typing import NamedTuple

from stweaver.error import Error

PREFIX = "STWEAVER_"


class Variable(NamedTuple):
    """One variable; `name` is without the prefix."""

    name: str
    meaning: str

    @property
    def full_name(self) -> str:
        """The name as the environment has it."""
        return PREFIX + self.name

    @property
    def value(self) -> str | None:
        """What the environment says; None if it does not, or has only an empty text."""
        return os.environ.get(self.full_name) or None

    @property
    def path(self) -> Path | None:
        """The value as a path; Error where it begins with a home folder that is not known."""
        return None if self.value is None else expand(self.value, f"{self.full_name}={self.value}")


RUN = Variable("RUN", "1: enable in each Python process that imports torch (`stweaver run` sets it)")
DEVICE = Variable("DEVICE", "cuda or cpu; else cuda where there is a GPU")
WAY = Variable("WAY", "wrapper (the default) or pluggable")
PLANS = Variable("PLANS", "folder that keeps the plans of `stweaver run`; none kept without it")
RECORD = Variable("RECORD", "file that `stweaver run` records into")
HOLD = Variable("HOLD", "GiB that may be held before memory is moved; else what is used, and a little")
VERBOSE = Variable("VERBOSE", "1: print each transition; 0: not even the line at exit")
LIVE = Variable("LIVE", "RANK:SOCKET: where a rank tells how it goes (`stweaver run --live` sets it)")
CACHE = Variable("CACHE", "folder of the adapters built here (default ~/.cache/stweaver)")
LIBRARY = Variable("LIBRARY", "path of libstweaver.so, where it does not lie in the package or the checkout")
PYTHON = Variable("PYTHON", "the Python that the native command calls (default python3)")

ALL = (RUN, DEVICE, WAY, PLANS, RECORD, HOLD, VERBOSE, LIVE, CACHE, LIBRARY, PYTHON)


def expand(path: str, words: str) -> Path:
    """Put the home folder for a "~" that no shell has seen; Error, with these words, where there is none."""
    try:
        return Path(path).expanduser()
    except RuntimeError:
        raise Error(f"{words}: no home folder is known; write the path without ~") from None


def unknown() -> list[str]:
    """Names in the environment that have our prefix and no meaning: misspelt ones."""
    known = {variable.full_name for variable in ALL}
    return sorted(name for name in os.environ if name.startswith(PREFIX) and name not in known)
