"""A real Chromium, headless, for tests and benches that open pages."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Browser, sync_playwright


def chromium_path() -> Path:
    """Find Debian's Chromium, installed or unpacked; its script on the PATH knows only the former."""
    script = shutil.which("chromium")
    if script is None:
        raise RuntimeError("there is no chromium: install the packages that tools/packages.txt lists")
    program = Path(script).parent.parent / "lib" / "chromium" / "chromium"
    return program if program.is_file() else Path(script)


@contextmanager
def chromium() -> Iterator[Browser]:
    """Start Debian's browser, and end it."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium_path())
        try:
            yield browser
        finally:
            browser.close()
