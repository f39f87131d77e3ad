"""STWeaver in other people's training loops. Import the one that you use: each needs its library.

from stweaver.integrations.transformers import StweaverCallback
from stweaver.integrations.lightning import StweaverCallback
"""

# What is logged unless more is asked for: a loop that prints its numbers has little room.
LOGGED = (
    "peak_requested_bytes",
    "peak_reserved_bytes",
    "step_peak_reserved_bytes",
    "step_efficiency",
    "step_seconds",
    "follows_plan",
)
