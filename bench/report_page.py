"""Open reports in Chromium, and print how large they are, how fast they load and how fluently they zoom.

Each trace's report is written, opened in a headless Chromium, and zoomed in and out by turning a wheel over
its map of the address space, one turn per frame. Load is from the begin of navigation to the first drawing.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tools"))

from browser import chromium  # noqa: E402  (the line above says where it is)

# Runs in the page. The wheel is turned in the middle of the map, 60 frames in and 60 out.
MEASURE = """async () => {
  const map = document.querySelector('canvas.map');
  map.scrollIntoView();
  const box = map.getBoundingClientRect();
  const frames = [];
  let last = await new Promise(requestAnimationFrame);
  for (let i = 0; i < 120; ++i) {
    map.dispatchEvent(new WheelEvent('wheel', {deltaY: i < 60 ? -50 : 50, cancelable: true, bubbles: true,
      clientX: box.left + box.width / 2, clientY: box.top + box.height / 2}));
    const now = await new Promise(requestAnimationFrame);
    frames.push(now - last);
    last = now;
  }
  return {load: Number(document.documentElement.dataset.ready), frames};
}"""


def measure(page: Path) -> dict[str, Any]:
    """Open the page in a browser of its own, and measure."""
    with chromium() as browser:
        tab = browser.new_page(viewport={"width": 1400, "height": 900})
        tab.goto(page.as_uri())
        tab.wait_for_selector("html[data-ready]")
        measured: dict[str, Any] = tab.evaluate(MEASURE)
        return measured


def report(command: Path, trace: Path, folder: Path) -> Path:
    """Write the report of a trace."""
    output = folder / "report.html"
    subprocess.run([command, "report", trace, "-o", output], check=True, stdout=subprocess.DEVNULL)
    return output


def blocks_of(html: str) -> int:
    """Count the requests that a page of one job draws."""
    facts = html.split('<script type="application/json" id="facts">')[1].split("</script>")[0]
    return int(json.loads(facts)[0]["drawn"])


def main() -> int:
    """Measure and print, row by row."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    traces = ROOT / "examples" / "traces"
    parser.add_argument("traces", nargs="*", type=Path, help="traces (default: all examples)")
    parser.add_argument("--command", type=Path, default=ROOT / "build/release/stweaver", help="the stweaver")
    options = parser.parse_args()
    print(f"{'trace':24} {'blocks':>8} {'MiB':>6} {'load s':>7} {'frames/s':>9} {'slowest ms':>11}")
    for trace in options.traces or sorted(traces.glob("*.pickle.xz")):
        with tempfile.TemporaryDirectory() as folder:
            page = report(options.command.resolve(), trace, Path(folder))
            html = page.read_text()
            measured = measure(page)
        frames = measured["frames"]
        print(
            f"{trace.name.split('.')[0]:24} {blocks_of(html):8d} {len(html) / 2**20:6.2f}"
            f" {measured['load'] / 1000:7.2f} {1000 * len(frames) / sum(frames):9.1f} {max(frames):11.1f}",
            flush=True,
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
