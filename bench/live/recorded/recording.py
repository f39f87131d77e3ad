"""What the recorded jobs tell of themselves: each event of the allocator, and marks between the events.

Events go to the file $LIVE_TRACE, those of this process's device only; without it nothing is recorded.
"""

import importlib
import os
import pickle
import sys
from pathlib import Path
from typing import Any

LIVE = Path(__file__).resolve().parents[1]
sys.path += [str(LIVE.parent / "gpu"), str(LIVE / "clients")]
if packages := os.environ.get("LIVE_PACKAGES"):  # those of the recording, where others are installed
    sys.path.insert(0, packages)

cuda: Any = importlib.import_module("torch").cuda  # most of it has no types

TRACE = os.environ.get("LIVE_TRACE", "")
MOST_EVENTS = 4_000_000

marks: list[tuple[int, int, str]] = []  # allocations so far, frees so far, what begins here


def start() -> None:
    """Record from here on."""
    if TRACE:
        cuda.memory._record_memory_history(
            enabled="all", context=None, stacks="python", max_entries=MOST_EVENTS
        )


def mark(label: str) -> None:
    """Say what begins here."""
    if TRACE:
        now = cuda.memory_stats()
        marks.append((now["allocation.all.allocated"], now["allocation.all.freed"], label))


def save() -> None:
    """Write what was recorded, as PyTorch's own snapshots are written."""
    if not TRACE:
        return
    device = cuda.current_device()
    snapshot = cuda.memory._snapshot()
    kept = {
        "segments": [segment for segment in snapshot["segments"] if segment["device"] == device],
        "device_traces": [snapshot["device_traces"][device]],
        "markers": marks,
    }
    with Path(TRACE).open("wb") as file:
        pickle.dump(kept, file, protocol=4)
