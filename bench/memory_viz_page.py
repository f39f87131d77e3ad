"""Open every export of `report --memory-viz` in PyTorch's own page, in Chromium, in all of its views.

    python3 bench/memory_viz_page.py MEMORY_VIZ_JS D3_JS [TRACE...]

Wheels of PyTorch bring a page that loads its script from a network; here it comes from files. MEMORY_VIZ_JS
is torch/utils/viz/MemoryViz.js of PyTorch's sources (which `apt-get source pytorch` has as well),
D3_JS is d3 of version 5 in one file: /usr/share/nodejs/d3/dist/d3.js of Debian's package node-d3. It needs
torch and a built command. It prints a row for each view of each export, and fails where the page complains.
"""

import argparse
import base64
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from playwright.sync_api import Browser, Page, Route
from torch.cuda import _memory_viz

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tools"))

from browser import chromium  # noqa: E402  (from the folder above)

VIEWS = ("Active Memory Timeline", "Active Cached Segment Timeline", "Allocator State History")
SCRIPT = "https://cdn.jsdelivr.net/"
# d3 comes as one library. What it exports changes (d3.event), so the script gets the library itself.
IMPORTS = (
    "export const {axisLeft, brushX, scaleLinear, zoom, zoomIdentity} = self.d3;\nexport default self.d3;"
)
ALL_OF_D3, ITSELF = "import * as d3 from", "import d3 from"


def export(traces: list[Path], folder: Path) -> list[Path]:
    """Write what PyTorch's allocators and a plan make of each trace."""
    for trace in traces:
        command = ("build/release/stweaver", "report", trace, "-o", folder / "r.html", "--memory-viz", folder)
        subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    return sorted(folder.glob("*.pickle"))


class Viz:
    """PyTorch's page in a browser, with its script and d3 from files."""

    def __init__(self, browser: Browser, script: Path, d3: Path) -> None:
        """Open nothing yet."""
        self._script = script.read_text().replace(ALL_OF_D3, ITSELF)
        self._d3 = f"{d3.read_text()}\n{IMPORTS}"
        self._browser = browser

    def open(self, html: str) -> tuple[Page, list[str]]:
        """Open a page that PyTorch wrote; what it complains of comes into the list."""
        page = self._browser.new_page()
        complaints: list[str] = []
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("console", lambda told: complaints.append(told.text) if told.type == "error" else None)
        page.route("**/*", self._serve)
        page.set_content(html)
        page.wait_for_selector("select >> nth=2")
        return page, complaints

    def _serve(self, route: Route) -> None:
        body = self._script if route.request.url.startswith(SCRIPT) else self._d3
        headers = {"Access-Control-Allow-Origin": "*"}
        route.fulfill(body=body, content_type="text/javascript", headers=headers)


def page_of(export: bytes, view: str) -> str:
    """Write the page that PyTorch would, with the export as it is instead of what Python makes of it."""
    padded = export + b"\0" * (-len(export) % 3)
    files = json.dumps([{"name": "snapshot.pickle", "base64": base64.b64encode(padded).decode()}])
    return _memory_viz._memory_viz_template.replace("$VIZ_KIND", repr(view)).replace("$SNAPSHOT", files)


def look(viz: Viz, export: bytes, view: str) -> tuple[int, list[str]]:
    """Return how many shapes a view of an export draws, and what the page complains of."""
    page, complaints = viz.open(page_of(export, view))
    page.wait_for_selector("svg polygon, svg g g rect", state="attached")
    shapes = page.locator("svg polygon, svg g g rect").count()
    if view == "Allocator State History":
        page.locator("pre").first.dispatch_event("mousedown")  # back to the first event, through all others
    page.close()
    return shapes, complaints


def main() -> None:
    """Look at all of them."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("script", type=Path)
    parser.add_argument("d3", type=Path)
    parser.add_argument("traces", type=Path, nargs="*")
    options = parser.parse_args()
    traces = options.traces or sorted((ROOT / "examples" / "traces").glob("*.pickle.xz"))
    bad = 0
    print("| export | view | shapes | seconds | complaints |\n|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder, chromium() as browser:
        viz = Viz(browser, options.script, options.d3)
        for file in export(traces, Path(folder)):
            for view in VIEWS:
                begin = time.monotonic()
                shapes, complaints = look(viz, file.read_bytes(), view)
                bad += bool(complaints) or shapes == 0
                seconds = time.monotonic() - begin
                print(f"| {file.stem} | {view} | {shapes} | {seconds:.1f} | {'; '.join(complaints)} |")
    sys.exit(f"{bad} views failed" if bad else 0)


if __name__ == "__main__":
    main()
