"""STWeaver: plans where every tensor of a PyTorch training job lives in memory.

    import stweaver
    stweaver.enable()          # records a few steps, plans them, and follows the plan
    ...                        # the training loop, unchanged
    print(stweaver.report())   # hits, misses, reserved, efficiency, saved

A request that a plan does not cover is served all the same, and counted: a plan never fails a job. Importing
this package needs neither PyTorch nor a GPU nor a compiler; what is missing is said when it is needed, by an
Error of one line.
"""

from stweaver import pareto
from stweaver.advisor import advise
from stweaver.error import Error
from stweaver.session import disable, enable, install, is_enabled, mark_step, record, report, stats
from stweaver.statistics import DeviceStats, Peaks, Served, Stats, Step
from stweaver.traces import plan
from stweaver.version import __version__

__all__ = [
    "DeviceStats",
    "Error",
    "Peaks",
    "Served",
    "Stats",
    "Step",
    "__version__",
    "advise",
    "disable",
    "enable",
    "install",
    "is_enabled",
    "mark_step",
    "pareto",
    "plan",
    "record",
    "report",
    "stats",
]
