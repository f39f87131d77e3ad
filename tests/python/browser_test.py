"""The pages of `report` and `diff` in a real browser, with and without a mouse."""

import math
import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

import pytest
from conftest import TRACES, Run, write_events, write_run
from playwright.sync_api import Browser, Locator, Page

Colors = Literal["light", "dark"]

# Of a canvas: how many colours its pixels have, and a number that other pixels would change.
LOOK = """(canvas) => {
  const copy = new OffscreenCanvas(canvas.width, canvas.height).getContext('2d', {willReadFrequently: true});
  copy.drawImage(canvas, 0, 0);
  const words = new Uint32Array(copy.getImageData(0, 0, canvas.width, canvas.height).data.buffer);
  return {colors: new Set(words).size, sum: words.reduce((a, b) => (a * 31 + b) >>> 0, 0)};
}"""
LIGHTNESS = """() => getComputedStyle(document.body).backgroundColor.match(/\\d+/g).slice(0, 3)
  .reduce((a, b) => a + Number(b), 0) / 3"""


# Rows of a canvas in which the colour of the grid is what is seen most.
LINES_ACROSS = """(canvas) => {
  const copy = new OffscreenCanvas(canvas.width, canvas.height).getContext('2d', {willReadFrequently: true});
  copy.fillStyle = getComputedStyle(document.documentElement).getPropertyValue('--grid');
  copy.fillRect(0, 0, 1, 1);
  const grid = new Uint32Array(copy.getImageData(0, 0, 1, 1).data.buffer)[0];
  copy.drawImage(canvas, 0, 0);
  const row = (y) => new Uint32Array(copy.getImageData(0, y, canvas.width, 1).data.buffer);
  const isLine = (y) => row(y).filter((word) => word === grid).length > canvas.width / 2;
  return [...Array(canvas.height).keys()].filter(isLine).length;
}"""
# What is written on the map, and where it begins and ends.
RECORD_TEXTS = """
const write = CanvasRenderingContext2D.prototype.fillText;
CanvasRenderingContext2D.prototype.fillText = function (text, x, y, most = Infinity) {
  const {width} = this.measureText(text);
  const left = x - Math.min(width, most) * ({right: 1, center: 0.5}[this.textAlign] ?? 0);
  const right = left + Math.min(width, most);
  if (this.canvas.matches('.map')) window.texts?.push({text, left, right, width: this.canvas.clientWidth});
  write.apply(this, arguments);
};"""
BACKGROUND = "(node) => getComputedStyle(node).backgroundColor"
BEHIND = "() => getComputedStyle(document.querySelector('button')).backgroundColor"  # that of canvases


def luminance(color: str) -> float:
    """Compute the relative luminance of "rgb(1, 2, 3)", near enough."""
    red, green, blue = (math.pow(int(part) / 255, 2.2) for part in re.findall(r"\d+", color)[:3])
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


@pytest.fixture(scope="module")
def pages(stweaver: Run, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Write a report of two jobs, and what differs between two of them."""
    folder = tmp_path_factory.mktemp("pages")
    report, diff, lines = (folder / name for name in ("report.html", "diff.html", "lines.html"))
    run = write_run(folder / "lines.pickle", {"embed": 1 << 20, "attend": 3 << 20})
    later = write_run(folder / "later.pickle", {"embed": 1 << 20, "attend": 5 << 20, "log": 4096})
    for arguments in [
        ("report", TRACES / "llama7b_VR.pickle.xz", run, "-o", report),
        ("diff", TRACES / "llama7b_N.pickle.xz", TRACES / "llama7b_VR.pickle.xz", "-o", diff),
        ("diff", run, later, "-o", lines),
    ]:
        result = stweaver(*arguments)
        assert result.returncode == 0, result.stderr
    return {"report": report, "diff": diff, "lines": lines}


class Opened:
    """A page in a window of its own, and what it complained about or asked the network for."""

    def __init__(self, browser: Browser, file: Path, colors: Colors = "light", width: int = 1280) -> None:
        """Open the file and wait until it is drawn."""
        self.complaints: list[str] = []
        self.requests: list[str] = []
        self.page = browser.new_page(color_scheme=colors, viewport={"width": width, "height": 900})
        self.page.on("console", lambda message: self.complaints.append(message.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.goto(file.as_uri())
        self.page.wait_for_selector("html[data-ready]")
        self.file = file

    def close(self) -> None:
        """Close it; it must have been quiet, and have read its own file only."""
        self.page.close()
        assert self.complaints == []
        assert self.requests == [self.file.as_uri()]


def opened_report(browser: Browser, stweaver: Run, *traces: Path) -> Opened:
    """Write the report of traces beside the first of them, and open it."""
    file = traces[0].with_suffix(".html")
    result = stweaver("report", *traces, "-o", file)
    assert result.returncode == 0, result.stderr
    return Opened(browser, file)


def request(address: int, size: int, **more: Any) -> list[dict[str, Any]]:  # noqa: ANN401
    """Allocate and free, as a snapshot tells it."""
    common = {"addr": address, "size": size, "stream": 0, "time_us": 0, **more}
    return [{"action": action, **common} for action in ("alloc", "free_requested", "free_completed")]


@pytest.fixture(scope="module")
def report_window(browser: Browser, pages: dict[str, Path]) -> Iterator[Page]:
    """Open the report, for several tests."""
    opened = Opened(browser, pages["report"])
    yield opened.page
    opened.close()


@pytest.fixture
def report(report_window: Page) -> Page:
    """Give the report as it is when it is opened."""
    for canvas in report_window.locator("canvas").all():
        canvas.press("0")
        canvas.dispatch_event("pointerleave")
    return report_window


@pytest.fixture
def diff(browser: Browser, pages: dict[str, Path]) -> Iterator[Page]:
    """Open what differs."""
    opened = Opened(browser, pages["diff"])
    yield opened.page
    opened.close()


def look(canvas: Locator) -> dict[str, Any]:
    """Look at what a canvas shows, after the next frame."""
    canvas.page.evaluate(
        "() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"
    )
    seen: dict[str, Any] = canvas.evaluate(LOOK)
    return seen


def select(page: Page, label: str) -> Locator:
    """Find the choice that is labelled so."""
    return page.locator("label", has_text=label).locator("select")


@pytest.mark.parametrize("name", ["report", "diff", "lines"])
@pytest.mark.parametrize("colors", ["light", "dark"])
def test_a_page_is_drawn_without_a_complaint_or_a_network(
    browser: Browser, pages: dict[str, Path], name: str, colors: Colors
) -> None:
    opened = Opened(browser, pages[name], colors)
    for canvas in opened.page.locator("canvas").all():
        assert look(canvas)["colors"] > 10
    lightness = opened.page.evaluate(LIGHTNESS)
    assert lightness < 64 if colors == "dark" else lightness > 192
    opened.close()


@pytest.mark.parametrize("name", ["report", "diff"])
def test_a_page_fits_into_a_narrow_window_and_names_what_it_shows(
    browser: Browser, pages: dict[str, Path], name: str
) -> None:
    opened = Opened(browser, pages[name], width=420)
    page = opened.page
    assert page.evaluate("() => document.documentElement.scrollWidth") <= 420
    assert page.get_by_role("heading", level=1).count() == 1
    for canvas in page.locator("canvas").all():
        assert len(canvas.get_attribute("aria-label") or "") > 40
        assert canvas.get_attribute("tabindex") == "0"
    assert page.locator("table").count() == page.locator("caption").count() > 1
    assert page.get_by_role("button").count() == page.locator("button[aria-label]").count() > 0
    opened.close()


@pytest.mark.parametrize("selector", ["canvas.curves", "canvas.map"])
def test_a_keyboard_zooms_moves_and_comes_back(report: Page, selector: str) -> None:
    canvas = report.locator(selector)
    whole = look(canvas)
    canvas.focus()
    seen = [whole["sum"]]
    for key in ["+", "+", "ArrowRight", "-"]:
        canvas.press(key)
        seen.append(look(canvas)["sum"])
    assert len(set(seen)) == len(seen), "each key changes what is seen"
    canvas.press("0")
    canvas.dispatch_event("pointerleave")  # nothing is pointed out any more
    assert look(canvas) == whole


def test_a_keyboard_explains_the_request_in_the_middle(report: Page) -> None:
    canvas = report.locator("canvas.map")
    canvas.focus()
    status = report.get_by_role("status")
    for key in ["+", "ArrowLeft", "ArrowDown", "ArrowLeft", "ArrowDown"]:
        canvas.press(key)
        if status.is_visible():
            break
    assert "request" in status.inner_text()


def test_a_pointer_explains_the_request_below_it(report: Page) -> None:
    canvas = report.locator("canvas.map")
    canvas.scroll_into_view_if_needed()
    status = report.get_by_role("status")
    box = canvas.bounding_box()
    assert box
    texts = set()
    for share in (0.3, 0.5, 0.7, 0.9):
        report.mouse.move(box["x"] + 0.5 * box["width"], box["y"] + share * box["height"])
        if status.is_visible():
            texts.add(status.inner_text())
    assert len(texts) > 1
    assert all("request" in text and "stream" in text for text in texts)


def test_what_is_explained_goes_with_the_focus_and_with_its_map(report: Page) -> None:
    canvas = report.locator("canvas.map")
    status = report.get_by_role("status")
    for leave in (lambda: canvas.press("Tab"), lambda: select(report, "Allocator").select_option(index=0)):
        canvas.hover(position={"x": 600, "y": 60})
        status.wait_for()
        canvas.focus()
        leave()
        assert not status.is_visible()
    select(report, "Allocator").select_option(index=2)


def test_the_labels_of_an_axis_are_even_and_whole(browser: Browser, pages: dict[str, Path]) -> None:
    page = browser.new_page(viewport={"width": 700, "height": 900})
    page.add_init_script(RECORD_TEXTS)
    page.goto(pages["report"].as_uri())
    page.wait_for_selector("html[data-ready]")
    canvas = page.locator("canvas.map")
    for _ in range(12):
        page.evaluate("() => (window.texts = [])")
        canvas.press("+")
        look(canvas)
        texts = page.evaluate("() => window.texts")
        assert all(text["left"] >= 0 and text["right"] <= text["width"] for text in texts)
        sizes = sorted({float(text["text"].split()[0]) for text in texts if text["text"].endswith("B")})
        steps = [after - before for before, after in pairwise(sizes)]
        assert max(steps) < 1.02 * min(steps)
    page.close()


def test_no_line_across_the_map_looks_like_a_gap(report: Page) -> None:
    assert report.locator("canvas.map").evaluate(LINES_ACROSS) == 0


@pytest.mark.parametrize("colors", ["light", "dark"])
def test_every_colour_of_a_scale_stands_out(browser: Browser, pages: dict[str, Path], colors: Colors) -> None:
    opened = Opened(browser, pages["report"], colors)
    select(opened.page, "Colour by").select_option(label="size")
    swatches = opened.page.locator("section:has(canvas.map) .swatch")
    behind = luminance(opened.page.evaluate(BEHIND))
    assert swatches.count() > 1
    for swatch in swatches.all():
        low, high = sorted([behind, luminance(swatch.evaluate(BACKGROUND))])
        assert (high + 0.05) / (low + 0.05) > 1.3
    opened.close()


def test_a_wheel_zooms(report: Page) -> None:
    canvas = report.locator("canvas.map")
    whole = look(canvas)
    canvas.hover()
    report.mouse.wheel(0, -300)
    assert look(canvas)["sum"] != whole["sum"]


def test_another_job_and_another_allocator_can_be_chosen(browser: Browser, pages: dict[str, Path]) -> None:
    opened = Opened(browser, pages["report"])
    report = opened.page
    seen = [look(report.locator("canvas.map"))["sum"]]
    for label, option in [("Allocator", "PyTorch default"), ("Colour by", "size")]:
        select(report, label).select_option(label=option)
        seen.append(look(report.locator("canvas.map"))["sum"])
    assert len(set(seen)) == 3
    select(report, "Job").select_option(label="lines")
    report.get_by_role("rowheader", name="attend (job/train.py:2)").wait_for()
    opened.close()


# Every job's data waits for `hold`, where there is one.
HOLD_BACK = """
const read = Response.prototype.arrayBuffer;
Response.prototype.arrayBuffer = async function () {
  await window.hold;
  return read.call(this);
};"""


def test_the_job_that_was_chosen_last_is_shown_whichever_is_unpacked_last(
    browser: Browser, pages: dict[str, Path]
) -> None:
    page = browser.new_page()
    page.add_init_script(HOLD_BACK)
    page.goto(pages["report"].as_uri())
    page.wait_for_selector("html[data-ready]")
    shown = page.evaluate_handle("() => document.querySelector('h2.job')")
    page.evaluate("() => void (window.hold = new Promise((release) => (window.release = release)))")
    select(page, "Job").select_option(label="lines")
    page.evaluate("() => void (window.hold = null)")
    select(page, "Job").select_option(label="llama7b_VR")
    page.wait_for_function("(shown) => !shown.isConnected", arg=shown)
    page.evaluate("() => window.release()")
    look(page.locator("canvas.map"))
    assert page.locator("h2.job").inner_text() == "llama7b_VR"
    page.close()


@pytest.mark.parametrize("name", ["report", "diff"])
def test_a_page_that_cannot_be_shown_says_why(browser: Browser, pages: dict[str, Path], name: str) -> None:
    page = browser.new_page()
    page.add_init_script("delete window.DecompressionStream")
    page.goto(pages[name].as_uri())
    assert "DecompressionStream is not defined" in page.get_by_role("alert").inner_text()
    page.close()


def test_a_job_of_very_many_steps_is_shown(browser: Browser, stweaver: Run, tmp_path: Path) -> None:
    steps = 40_000
    labels = (f"step {step}" for step in range(steps))
    events = [event for label in labels for event in request(1 << 30, 4096, user_metadata=label)]
    opened = opened_report(browser, stweaver, write_events(tmp_path / "steps.pickle", events))
    assert f"{steps:,} steps" in opened.page.locator("h2.job + p").inner_text()
    select(opened.page, "Colour by").select_option(label="phase")
    assert look(opened.page.locator("canvas.map"))["colors"] > 10
    opened.close()


def test_a_tap_explains_the_request_below_it(browser: Browser, stweaver: Run, tmp_path: Path) -> None:
    trace = write_run(tmp_path / "run.pickle", {"embed": 1 << 20, "attend": 3 << 20})
    assert stweaver("report", trace, "-o", tmp_path / "run.html").returncode == 0
    page = browser.new_page(has_touch=True)
    page.goto((tmp_path / "run.html").as_uri())
    page.wait_for_selector("html[data-ready]")
    page.locator("canvas.map").tap(position={"x": 900, "y": 200})
    assert "attend (job/train.py:2)" in page.get_by_role("status").inner_text()
    page.close()


def test_a_request_is_explained_by_the_mark_before_it(
    browser: Browser, stweaver: Run, tmp_path: Path
) -> None:
    events = [
        event for layer in range(6000) for event in request(1 << 30, 2 << 20, user_metadata=f"layer {layer}")
    ]
    opened = opened_report(browser, stweaver, write_events(tmp_path / "marks.pickle", events))
    canvas = opened.page.locator("canvas.map")
    canvas.scroll_into_view_if_needed()
    box = canvas.bounding_box()
    assert box
    status = opened.page.get_by_role("status")
    places = (box["x"] + box["width"] - 32 - 0.3 * i for i in range(100))  # where a request lives, not a gap
    for x in places:
        opened.page.mouse.move(x, box["y"] + 0.5 * box["height"])
        if status.is_visible():
            break
    text = status.inner_text(timeout=1000)
    number = text.split(":")[0].removeprefix("request ").replace(",", "")
    assert int(number) > 5900
    assert f"after the mark: layer {number}" in text.splitlines()
    opened.close()


def test_a_colour_stands_for_one_stream_or_for_all_others(
    browser: Browser, stweaver: Run, tmp_path: Path
) -> None:
    events = [event for stream in range(11) for event in request(1 << 30, 2 << 20, stream=stream)]
    opened = opened_report(browser, stweaver, write_events(tmp_path / "streams.pickle", events))
    select(opened.page, "Colour by").select_option(label="stream")
    legend = opened.page.locator("section:has(canvas.map) .legend > span").all_inner_texts()
    assert [entry.strip() for entry in legend] == [
        *(f"stream {stream}" for stream in range(7)),
        "stream 7 and 3 more",
    ]
    opened.close()


def test_the_last_event_is_that_at_the_right_edge(browser: Browser, stweaver: Run, tmp_path: Path) -> None:
    trace = write_run(tmp_path / "run.pickle", {"embed": 1 << 20, "attend": 3 << 20, "log": 4096})
    opened = opened_report(browser, stweaver, trace)
    canvas = opened.page.locator("canvas.curves")
    box = canvas.bounding_box()
    assert box
    for right in (28, 28.5, 29):  # beside the plot
        canvas.hover(position={"x": box["width"] - right, "y": 100})
        assert "event 3" not in opened.page.get_by_role("status").inner_text()
    assert "event 2" in opened.page.get_by_role("status").inner_text()
    opened.close()


def test_a_report_of_nothing_claims_nothing(browser: Browser, stweaver: Run, tmp_path: Path) -> None:
    opened = opened_report(browser, stweaver, write_events(tmp_path / "zero.pickle", request(1 << 30, 0)))
    text = opened.page.locator("main").inner_text()
    assert "1 stream" in text
    assert "none is drawn" in text
    assert "reserves nothing" in text
    assert "could grow" not in text
    assert "before recording" not in text
    opened.close()


def test_requests_of_other_sizes_have_other_names(browser: Browser, stweaver: Run, tmp_path: Path) -> None:
    events = [event for size in (0, 1) for event in request((1 + size) << 30, (1 << 20) + size)[:1]]
    frames = [{"name": "operator()", "filename": "kernel.cpp", "line": 1}]
    events[0]["frames"] = events[1]["frames"] = frames
    opened = opened_report(browser, stweaver, write_events(tmp_path / "sizes.pickle", events))
    rows = opened.page.get_by_role("region", name="Alive at event").locator("tr")
    assert [row.locator("th").first.inner_text().replace("\xa0", " ") for row in rows.all()] == [
        "requests (the trace knows no lines of Python)",
        "requests of 1,048,577 B",
        "requests of 1 MiB",
    ]
    opened.close()


def test_a_growth_that_rounds_to_nothing_is_not_told(
    browser: Browser, pages: dict[str, Path], tmp_path: Path
) -> None:
    file = tmp_path / "report.html"
    text = re.sub(r'"room":\[[^]]*\]', '"room":[1.004,1.0]', pages["report"].read_text())
    file.write_text(text)
    opened = Opened(browser, file)
    assert "could grow" not in opened.page.locator("main").inner_text()
    assert opened.page.locator("table").first.locator("td:last-child").all_inner_texts() == ["-", "-"]
    opened.close()


def test_a_peak_outside_of_steps_is_drawn_as_such(browser: Browser, stweaver: Run, tmp_path: Path) -> None:
    labels = (f"step {step}" for step in range(4))
    steps = [event for label in labels for event in request(1 << 30, 2 << 20, user_metadata=label)]
    before, after = (request(1 << 30, 9 << 20, user_metadata=label) for label in ("warm-up", "end"))
    files = [
        write_events(tmp_path / "early.pickle", before + steps),
        write_events(tmp_path / "late.pickle", steps + after),
    ]
    page = tmp_path / "diff.html"
    assert stweaver("diff", *files, "-o", page).returncode == 0
    opened = Opened(browser, page)
    early, late = opened.page.locator("figcaption").all_inner_texts()
    assert "what comes before the first step, 2 events" in early
    assert "what comes after the last step, 2 events" in late
    for canvas in opened.page.locator("canvas").all():
        assert "at most 9\xa0MiB" in (canvas.get_attribute("aria-label") or "")
    opened.close()


@pytest.mark.parametrize("name", ["report", "diff"])
def test_a_printed_page_is_light_and_not_empty(browser: Browser, pages: dict[str, Path], name: str) -> None:
    opened = Opened(browser, pages[name], "dark")
    opened.page.emulate_media(media="print")
    opened.page.evaluate("() => window.dispatchEvent(new Event('beforeprint'))")
    assert opened.page.evaluate(LIGHTNESS) == 255
    for canvas in opened.page.locator("canvas").all():
        assert look(canvas)["colors"] > 10
    assert len(opened.page.pdf()) > 20_000
    opened.close()


def test_the_changes_of_two_runs_are_told_by_line(browser: Browser, pages: dict[str, Path]) -> None:
    opened = Opened(browser, pages["lines"])
    rows = opened.page.get_by_role("region", name="the largest first").get_by_role("row")
    assert [row.inner_text().split("\t")[0].strip() for row in rows.all()[1:]] == [
        "attend (job/train.py:2)",
        "log (job/train.py:3)",
    ]
    select(opened.page, "Show").select_option(index=1)
    assert rows.count() == 2, "the heading, and what is new"
    assert "log (job/train.py:3)" in rows.nth(1).inner_text()
    opened.close()


def test_both_runs_are_drawn_on_one_scale_and_zoom_by_keyboard(diff: Page) -> None:
    before, now = diff.locator("canvas.curves").all()
    seen = [look(before)["sum"], look(now)["sum"]]
    now.focus()
    now.press("+")
    assert look(before)["sum"] == seen[0]
    assert look(now)["sum"] != seen[1]
