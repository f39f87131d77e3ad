"""The snapshots that `report --memory-viz` writes, opened by the tools of the installed PyTorch."""

import pickle
from bisect import bisect_right
from pathlib import Path
from typing import Any

import pytest
from conftest import TRACES, Answer, Run, write_run
from torch.cuda import _memory_viz

KINDS = ["default", "expandable", "planned"]
Snapshot = dict[str, Any]
Written = tuple[dict[str, Any], dict[str, Path]]


@pytest.fixture(scope="module")
def written(answer: Answer, tmp_path_factory: pytest.TempPathFactory) -> Written:
    """Export a real job; gives the command's answer and a file for each kind."""
    folder = tmp_path_factory.mktemp("exports") / "made" / "here"
    told = answer(
        "report",
        TRACES / "llama7b_VR.pickle.xz",
        "-o",
        folder.parent.parent / "r.html",
        "--memory-viz",
        folder,
    )
    files = {kind: folder / f"llama7b_VR.{kind}.pickle" for kind in KINDS}
    assert told["snapshots"] == [str(path) for path in files.values()]
    return told, files


@pytest.fixture(scope="module")
def snapshots(written: Written) -> dict[str, Snapshot]:
    """Load what was exported as any Python would."""
    return {kind: pickle.loads(path.read_bytes()) for kind, path in written[1].items()}


@pytest.mark.parametrize("kind", KINDS)
def test_pytorch_reads_an_export(snapshots: dict[str, Snapshot], kind: str) -> None:
    snapshot = snapshots[kind]
    assert "total_reserved" in _memory_viz.segsum(snapshot), "it checks that the sizes of blocks sum up"
    assert len(_memory_viz.trace(snapshot).splitlines()) > len(snapshot["device_traces"][0])
    blocks = [block["state"] for segment in snapshot["segments"] for block in segment["blocks"]]
    for flames in (_memory_viz.segments(snapshot, str), _memory_viz.memory(snapshot, str)):
        assert flames.count(";active_allocated;") == blocks.count("active_allocated") > 50
    before, after = snapshots["default"]["segments"], snapshot["segments"]
    assert bool(_memory_viz.compare(before, after, format_flamegraph=str)) == (kind != "default")
    for segments in (False, True):
        assert "MemoryViz.js" in _memory_viz.trace_plot(snapshot, plot_segments=segments)
    assert "MemoryViz.js" in _memory_viz.segment_plot(snapshot)


class Memory:
    """What a snapshot says is held and in use, event by event."""

    def __init__(self) -> None:
        """Hold nothing."""
        self.begins: list[int] = []  # of pages that are held, ascending
        self.ends: list[int] = []
        self.blocks: dict[int, int] = {}
        self.reserved = 0

    def grow(self, begin: int, size: int) -> None:
        """Hold more; it may not be held already."""
        at = bisect_right(self.begins, begin)
        assert at == 0 or self.ends[at - 1] <= begin
        assert at == len(self.begins) or begin + size <= self.begins[at]
        self.begins.insert(at, begin)
        self.ends.insert(at, begin + size)
        self.reserved += size

    def shrink(self, begin: int, size: int) -> None:
        """Hold less; all of it must be held."""
        self.reserved -= size
        while size > 0:
            at = bisect_right(self.begins, begin) - 1
            held, end = self.begins.pop(at), self.ends.pop(at)
            cut = min(end, begin + size)
            assert held <= begin < end
            for lower, upper in ((held, begin), (cut, end)):
                if lower < upper:
                    self.begins.insert(bisect_right(self.begins, lower), lower)
                    self.ends.insert(bisect_right(self.ends, lower), upper)
            size -= cut - begin
            begin = cut

    def allocate(self, begin: int, size: int) -> None:
        """Use memory; all of it must be held."""
        assert begin not in self.blocks
        self.blocks[begin] = size
        while size > 0:
            at = bisect_right(self.begins, begin) - 1
            assert at >= 0, "a block lies where no memory is"
            assert self.begins[at] <= begin < self.ends[at], "a block lies where no memory is"
            size -= self.ends[at] - begin
            begin = self.ends[at]


def play(snapshot: Snapshot) -> tuple[Memory, int]:
    """Follow all events of a job that was recorded from its start; gives the end, and the largest reserve."""
    memory = Memory()
    peak = 0
    for event in snapshot["device_traces"][0]:
        address, size = event["addr"], event["size"]
        if event["action"] in ("segment_alloc", "segment_map"):
            memory.grow(address, size)
        elif event["action"] in ("segment_free", "segment_unmap"):
            memory.shrink(address, size)
        elif event["action"] == "alloc":
            memory.allocate(address, size)
        elif event["action"] == "free_completed":
            assert memory.blocks.pop(address) == size
        peak = max(peak, memory.reserved)
    return memory, peak


@pytest.mark.parametrize("kind", KINDS)
def test_the_events_of_an_export_lead_to_its_segments(
    written: Written, snapshots: dict[str, Snapshot], kind: str
) -> None:
    memory, peak = play(snapshots[kind])
    allocator = {"default": "native", "expandable": "expandable", "planned": "stweaver"}[kind]
    told = written[0]["jobs"][0]["allocators"][allocator]
    if told.get("source") != "measured":
        assert peak == told["reserved_peak"]
    segments = snapshots[kind]["segments"]
    assert memory.reserved == sum(segment["total_size"] for segment in segments)
    alive = {
        block["address"]: block["requested_size"]
        for segment in segments
        for block in segment["blocks"]
        if block["state"] != "inactive"
    }
    assert alive == memory.blocks
    for segment in segments:
        assert sum(block["size"] for block in segment["blocks"]) == segment["total_size"]


def test_every_number_of_an_export_is_exact_in_javascript(snapshots: dict[str, Snapshot]) -> None:
    for snapshot in snapshots.values():
        assert max(event["addr"] + event["size"] for event in snapshot["device_traces"][0]) < 1 << 53


def test_our_reader_makes_the_same_job_of_an_export(answer: Answer, written: Written) -> None:
    original = answer("inspect", TRACES / "llama7b_VR.pickle.xz")
    for path in written[1].values():
        assert answer("inspect", path) == original | {"trace": str(path)}


def test_lines_of_code_are_frames(answer: Answer, tmp_path: Path) -> None:
    trace = write_run(tmp_path / "job.pickle", {"embed": 1 << 20, "attend": 3 << 20})
    answer("report", trace, "-o", tmp_path / "r.html", "--memory-viz", tmp_path)
    snapshot = pickle.loads((tmp_path / "job.default.pickle").read_bytes())
    allocations = [event for event in snapshot["device_traces"][0] if event["action"] == "alloc"]
    assert [event["frames"] for event in allocations] == [
        [{"name": name, "filename": "job/train.py", "line": line}]
        for line, name in enumerate(["embed", "attend"], start=1)
    ]
    assert "train.py:2:attend" in _memory_viz.memory(snapshot, format_flamegraph=str)


def test_an_export_of_one_of_several_devices_is_named_after_its_file(answer: Answer, tmp_path: Path) -> None:
    trace = TRACES.parent / "snapshots" / "devices.pickle.xz"
    document = answer("report", trace, "-o", tmp_path / "r.html", "--memory-viz", tmp_path)
    assert document["snapshots"] == [f"{tmp_path}/devices.{kind}.pickle" for kind in KINDS]


def test_refuses_two_jobs_of_one_name(stweaver: Run, tmp_path: Path) -> None:
    traces = []
    for rank in ("rank0", "rank1"):
        (tmp_path / rank).mkdir()
        traces.append(write_run(tmp_path / rank / "job.pickle", {"f": 1 << 20}))
    result = stweaver("report", *traces, "-o", tmp_path / "r.html", "--memory-viz", tmp_path / "viz")
    assert (result.returncode, result.stdout) == (2, "")
    assert "called job too" in result.stderr
    assert len(result.stderr.splitlines()) == 1
    assert not (tmp_path / "viz").exists()


def test_refuses_a_folder_that_cannot_be(stweaver: Run, tmp_path: Path) -> None:
    trace = write_run(tmp_path / "job.pickle", {"f": 1 << 20})
    result = stweaver("report", trace, "-o", tmp_path / "r.html", "--memory-viz", trace / "folder")
    assert (result.returncode, result.stdout) == (2, "")
    assert len(result.stderr.splitlines()) == 1
