"""Draw the pictures of pages in docs/pictures anew, with a built command and a headless Chromium."""

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import Browser, Page

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tools"))

from browser import chromium  # noqa: E402  (the line above says where it is)

PICTURES = ROOT / "docs" / "pictures"
TRACES = ROOT / "examples" / "traces"
WITHOUT_NOTES = "() => document.querySelector('style').append('.note, h1 {display: none}')"
TO_THE_MAP = "() => document.querySelector('#map').scrollIntoView()"


def trace(name: str) -> Path:
    """Name an example's file."""
    return TRACES / f"{name}.pickle.xz"


def open_page(browser: Browser, arguments: list[str | Path], width: int, height: int) -> Page:
    """Let the command write a page, and open it in a window of that size."""
    page = browser.new_page(viewport={"width": width, "height": height})
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "page.html"
        command = [ROOT / "build/release/stweaver", *arguments, "-o", file]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        page.goto(file.as_uri())
        page.wait_for_selector("html[data-ready]")
    return page


def draw_report(browser: Browser) -> Page:
    """Show a job whose lengths vary, by PyTorch's default: curves and map without words."""
    page = open_page(browser, ["report", trace("hf_trainer_varlen")], 1100, 1260)
    page.evaluate(WITHOUT_NOTES)
    page.locator("label", has_text="Allocator").locator("select").select_option(label="PyTorch default")
    return page


def draw_report_map(browser: Browser) -> Page:
    """Show a part of the map of a pipeline's rank, with one request explained."""
    page = open_page(browser, ["report", trace("llama7b_VR")], 1100, 640)
    page.emulate_media(color_scheme="dark")
    page.evaluate(TO_THE_MAP)
    canvas = page.locator("canvas.map")
    canvas.hover(position={"x": 520, "y": 368})
    for _ in range(7):
        page.mouse.wheel(0, -100)
        page.wait_for_timeout(50)
    canvas.hover(position={"x": 400, "y": 291})
    return page


def draw_diff(browser: Browser) -> Page:
    """Show a model without and with recomputation."""
    return open_page(browser, ["diff", trace("llama7b_N"), trace("llama7b_R")], 1100, 900)


def draw_advise(browser: Browser) -> Page:
    """Show a front of which a range of one axis is kept."""
    page = open_page(browser, ["advise", "llama3_70b", "--gpus", "64", "--gpu", "h100"], 1280, 1510)
    axis = page.get_by_role("group", name="GPUs: ").locator("line").bounding_box()
    assert axis
    page.mouse.move(axis["x"], axis["y"])
    page.mouse.down()
    page.mouse.move(axis["x"], axis["y"] + 0.4 * axis["height"], steps=3)
    page.mouse.up()
    page.mouse.move(0, 0)
    return page


DRAWINGS = {
    "report": draw_report,
    "report_map": draw_report_map,
    "diff": draw_diff,
    "advise": draw_advise,
}


def main() -> None:
    """Draw those that are named."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", choices=[*DRAWINGS, "all"], default="all")
    names = parser.parse_args().names
    with chromium() as browser:
        for name in DRAWINGS if "all" in names else names:
            page = DRAWINGS[name](browser)
            page.wait_for_timeout(300)
            page.screenshot(path=PICTURES / f"{name}.png")
            page.close()


if __name__ == "__main__":
    main()
