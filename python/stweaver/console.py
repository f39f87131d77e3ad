"""Lines for whoever runs a job."""

import contextlib
import sys


def say(line: str, who: str = "stweaver") -> None:
    """Write a line to standard error in one piece, for the ranks of a job share it.

    Workers of torchrun run unbuffered, where print() writes a line and its end apart.
    """
    if sys.stderr is None:
        return
    with contextlib.suppress(OSError, ValueError):  # a full disk, a reader that has gone
        sys.stderr.write(f"{who}: {line}\n")
        sys.stderr.flush()
