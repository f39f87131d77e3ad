"""The page that `report` writes: one file, whole, of nobody's making but ours."""

import base64
import json
import pickle
import re
import zlib
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from conftest import TRACES, Answer, Run

MARKUP = "</script><script>alert('x')</script><img src=\"http://example.org/x.png\">"
TRACE = TRACES / "llama7b_N.pickle.xz"


class Page(HTMLParser):
    """A page as a browser reads it: its elements, the texts of scripts by id, and its title."""

    def __init__(self, html: str) -> None:
        """Read a page."""
        super().__init__()
        self.elements: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.scripts: dict[str, str] = {}
        self.title = ""
        self.inside = ""
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note an element, and which script begins."""
        self.elements.append(tag)
        self.attributes += attrs
        self.inside = tag if tag == "title" else dict(attrs).get("id") or "" if tag == "script" else ""

    def handle_endtag(self, tag: str) -> None:
        """End what was begun."""
        if tag in {"title", "script"}:
            self.inside = ""

    def handle_data(self, data: str) -> None:
        """Keep the title and the scripts that have an id."""
        if self.inside == "title":
            self.title += data
        elif self.inside:
            self.scripts[self.inside] = self.scripts.get(self.inside, "") + data

    def jobs(self) -> Any:  # noqa: ANN401  (a JSON document)
        """Parse the facts of all jobs."""
        return json.loads(self.scripts["facts"])

    def columns(self, job: int) -> dict[str, list[int]]:
        """Unpack the columns of a job, as src/report/page/data.js does."""
        data = zlib.decompress(base64.b64decode(self.scripts[f"data-{job}"]))
        columns: dict[str, list[int]] = {}
        for column in self.jobs()[job]["columns"]:
            count, planes = column["count"], column["planes"]
            numbers = [
                sum(data[plane * count + i] << 8 * plane for plane in range(planes)) for i in range(count)
            ]
            data = data[planes * count :]
            for i in range(1, count if column["ascending"] else 0):
                numbers[i] += numbers[i - 1]
            columns[column["name"]] = numbers
        assert data == b""
        return columns


@pytest.fixture(scope="module")
def report(stweaver: Run, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Write the report of a real job, and return the page."""
    output = tmp_path_factory.mktemp("report") / "page.html"
    result = stweaver("report", TRACE, "-o", output)
    assert result.returncode == 0, result.stderr
    assert str(output) in result.stdout
    return output.read_text()


def test_a_page_is_one_file_that_refers_to_no_other(report: str) -> None:
    page = Page(report)
    assert not re.findall(r"https?://(?!www\.w3\.org/2000/svg)", report), "the name of SVG is no address"
    assert not {"img", "link", "iframe", "object", "embed", "base"} & set(page.elements)
    assert not [name for name, _ in page.attributes if name in {"src", "href"} or name.startswith("on")]
    policies = [
        value for name, value in page.attributes if name == "content" and "default-src" in (value or "")
    ]
    assert policies, "the page must forbid what it does not need"
    assert "default-src 'none'" in (policies[0] or "")


def test_a_page_is_small(report: str) -> None:
    assert len(report) < 1 << 20, "27 thousand requests in a megabyte: 300 thousand stay below 8"


def test_a_page_says_what_compare_says(report: str, answer: Answer) -> None:
    (job,) = Page(report).jobs()
    (compared,) = answer("compare", TRACE)
    allocators = compared["allocators"]
    assert job["requests"] == job["drawn"] == compared["requests"]
    assert job["numbers"]["requested"] == compared["requested_peak"] == job["peak"]["bytes"]
    assert job["numbers"]["reserved"][:2] == [
        allocators["native"]["reserved_peak"],
        allocators["expandable"]["reserved_peak"],
    ]
    assert len(job["steps"]) == compared["steps"]


def test_the_blocks_of_a_page_are_the_requests_of_its_job(report: str) -> None:
    page = Page(report)
    (job,) = page.jobs()
    columns = page.columns(0)
    assert columns["id"] == list(range(job["requests"]))
    assert columns["birth"] == sorted(columns["birth"])
    assert (
        max(birth + life for birth, life in zip(columns["birth"], columns["life"], strict=True))
        <= job["events"]
    )
    for allocator, extent in zip(["native", "expandable", "stweaver"], job["extents"], strict=True):
        ends = [
            offset - 1 + size
            for offset, size in zip(columns[f"{allocator}_offset"], columns["size"], strict=True)
            if offset > 0
        ]
        assert len(ends) == job["requests"]
        assert max(ends) <= extent


def test_the_curves_of_a_page_reach_the_peaks(report: str) -> None:
    page = Page(report)
    (job,) = page.jobs()
    columns = page.columns(0)
    assert max(columns["requested_bytes"]) == job["numbers"]["requested"]
    for i, allocator in enumerate(["native", "expandable", "stweaver"]):
        assert max(columns[f"{allocator}_bytes"]) == job["numbers"]["reserved"][i]


def small_snapshot(text: str) -> dict[str, Any]:
    """Make a snapshot of a few requests in which every text is `text`."""
    frames = [{"name": text, "filename": f"/job/{text}.py", "line": 1}]
    events = [
        {
            "action": action,
            "addr": 4096 * (1 + index),
            "size": 4096,
            "stream": 0,
            "time_us": index,
            "user_metadata": f"{text} {index}",
            "frames": frames,
        }
        for index in range(8)
        for action in ["alloc", "free_requested", "free_completed"]
    ]
    settings = {"PYTORCH_CUDA_ALLOC_CONF": text}
    return {"segments": [], "device_traces": [events], "allocator_settings": settings}


def page_of(stweaver: Run, folder: Path, name: str, text: str) -> Page:
    """Write the report of a small snapshot and read it."""
    trace, output = folder / name, folder / "report.html"
    trace.write_bytes(pickle.dumps(small_snapshot(text)))
    result = stweaver("report", trace, "-o", output)
    assert result.returncode == 0, result.stderr
    return Page(output.read_text())


def test_texts_of_a_trace_are_never_read_as_html(stweaver: Run, tmp_path: Path) -> None:
    harmless = page_of(stweaver, tmp_path, "job.pickle", "text")
    name = "<b>&lt;'\"job"
    hostile = page_of(stweaver, tmp_path, f"{name}.pickle", MARKUP)
    assert hostile.elements == harmless.elements
    assert hostile.title == f"Memory report: {name}"
    (job,) = hostile.jobs()
    assert job["settings"] == MARKUP
    assert job["marks"][0] == f"{MARKUP} 0"
    assert any(MARKUP.rpartition("/")[2] in site for site in job["sites"])


def test_answers_with_json(answer: Answer, tmp_path: Path) -> None:
    trace, output = tmp_path / "job.pickle", tmp_path / "page.html"
    trace.write_bytes(pickle.dumps(small_snapshot("text")))
    said = answer("report", trace, trace, "-o", output)
    assert said["file"] == str(output)
    assert said["bytes"] == output.stat().st_size
    assert [job["requests"] for job in said["jobs"]] == [8, 8]


def test_refuses_to_write_where_it_cannot(stweaver: Run, tmp_path: Path) -> None:
    trace = tmp_path / "job.pickle"
    trace.write_bytes(pickle.dumps(small_snapshot("text")))
    result = stweaver("report", trace, "-o", tmp_path / "no such folder" / "page.html")
    assert (result.returncode, result.stdout) == (2, "")
    assert len(result.stderr.splitlines()) == 1


def test_refuses_a_bad_trace_and_writes_nothing(stweaver: Run, tmp_path: Path) -> None:
    good, bad = tmp_path / "good.pickle", tmp_path / "bad.pickle"
    good.write_bytes(pickle.dumps(small_snapshot("text")))
    bad.write_bytes(b"no snapshot")
    output = tmp_path / "page.html"
    result = stweaver("report", good, bad, "-o", output)
    assert (result.returncode, result.stdout) == (2, "")
    assert "bad.pickle" in result.stderr
    assert not output.exists()
