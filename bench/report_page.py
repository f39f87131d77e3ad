"""Open reports in Chromium, and print how large they are, how fast they load and how fluently they zoom.

Each trace's report is written, served to a headless Chromium from this process, and zoomed in and out by
turning a wheel over its map of the address space, one turn per frame. Load is from the begin of navigation to
the first drawing.
"""

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from queue import Empty, Queue
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
SECONDS = 60  # for one page, at most

# Runs in the page. The wheel is turned in the middle of the map, 60 frames in and 60 out.
MEASURE = """
<script type="module">
const root = document.documentElement;
while (!root.dataset.ready) await new Promise(requestAnimationFrame);
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
await fetch('/measured', {method: 'POST', body: JSON.stringify({load: Number(root.dataset.ready), frames})});
</script>
"""


def handler_of(page: bytes, results: "Queue[dict[str, Any]]") -> type[BaseHTTPRequestHandler]:
    """Make the server's answers: the page, and a place to send the result to."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.answer(page if self.path == "/" else b"")

        def do_POST(self) -> None:
            results.put(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.answer(b"")

        def answer(self, content: bytes) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/html; charset=utf-8")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            """Say nothing: the table is the output."""

    return Handler


@contextmanager
def serving(page: bytes, results: "Queue[dict[str, Any]]") -> Iterator[str]:
    """Serve the page on this machine; gives its address."""
    server = HTTPServer(("127.0.0.1", 0), handler_of(page, results))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def measurable(html: str) -> bytes:
    """Add the measurement to a page, and let it send its result, which the page itself forbids."""
    begin = html.index('<meta http-equiv="Content-Security-Policy"')
    html = html[:begin] + html[html.index(">", begin) + 1 :]
    return html.replace("</body>", MEASURE + "</body>").encode()


def measure(browser: str, html: str) -> dict[str, Any]:
    """Open the page in a browser of its own, and wait for what it measures."""
    results: Queue[dict[str, Any]] = Queue()
    with tempfile.TemporaryDirectory() as profile, serving(measurable(html), results) as address:
        options = ["--headless=new", "--no-sandbox", "--window-size=1400,900", f"--user-data-dir={profile}"]
        with subprocess.Popen([browser, *options, address], stderr=subprocess.DEVNULL) as process:
            try:
                return results.get(timeout=SECONDS)
            except Empty:
                raise SystemExit(f"bench: {browser} did not show the page in {SECONDS} s") from None
            finally:
                process.terminate()
                process.wait()


def report(command: Path, trace: Path, folder: Path) -> str:
    """Write the report of a trace and return it."""
    output = folder / "report.html"
    subprocess.run([command, "report", trace, "-o", output], check=True, stdout=subprocess.DEVNULL)
    return output.read_text()


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
    parser.add_argument("--browser", default="chromium", help="a Chromium (default: the one of the PATH)")
    options = parser.parse_args()
    browser = shutil.which(options.browser)
    if browser is None:
        raise SystemExit(f"bench: there is no {options.browser}: install Debian's package chromium")
    print(f"{'trace':24} {'blocks':>8} {'MiB':>6} {'load s':>7} {'frames/s':>9} {'slowest ms':>11}")
    for trace in options.traces or sorted(traces.glob("*.pickle.xz")):
        with tempfile.TemporaryDirectory() as folder:
            html = report(options.command.resolve(), trace, Path(folder))
        measured = measure(browser, html)
        frames = measured["frames"]
        print(
            f"{trace.name.split('.')[0]:24} {blocks_of(html):8d} {len(html) / 2**20:6.2f}"
            f" {measured['load'] / 1000:7.2f} {1000 * len(frames) / sum(frames):9.1f} {max(frames):11.1f}",
            flush=True,
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
