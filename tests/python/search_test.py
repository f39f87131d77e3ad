"""`stweaver plan` while it searches: what a terminal shows, and how the search is ended."""

import json
import os
import pty
import signal
import subprocess
from pathlib import Path

import pytest
from conftest import ROOT, Answer

COMMAND = ROOT / os.environ.get("STWEAVER_COMMAND", "build/release/stweaver")
# Nobody knows a placement that meets its bound, or a proof that there is none: the search goes on for ever.
HARD = ROOT / "examples" / "planning" / "minimalloc" / "J.1048576.csv"
LARGE = ROOT / "examples" / "planning" / "large" / "S_1.csv"  # seconds until the constructors are done


class Search:
    """The command planning an instance, its standard error on a terminal."""

    def __init__(self, *arguments: str | Path, timeout: float, instance: Path = HARD) -> None:
        """Start it with these arguments; `timeout` in seconds."""
        self.terminal, end = pty.openpty()
        command = [COMMAND, "plan", instance, "--timeout", str(timeout), *arguments]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=end, text=True)
        os.close(end)

    def shown(self, until: str = "") -> str:
        """Read what the terminal shows, up to `until` or to the end."""
        text = ""
        while not until or until not in text:
            try:
                text += os.read(self.terminal, 4096).decode()
            except OSError:  # the other end is closed
                break
        return text

    def answer(self) -> str:
        """Wait for its end and return its standard output."""
        answer, _ = self.process.communicate(timeout=60)
        os.close(self.terminal)
        return answer


@pytest.mark.parametrize(("instance", "sign"), [(HARD, "over the bound"), (LARGE, "1 s")])
def test_ctrl_c_keeps_the_best_plan(answer: Answer, tmp_path: Path, instance: Path, sign: str) -> None:
    placed = tmp_path / "placed.csv"
    search = Search("-o", placed, "--threads", "1", timeout=600, instance=instance)
    assert sign in search.shown(until=sign)
    search.process.send_signal(signal.SIGINT)
    assert "stopped before its time: this is the best plan until then" in search.answer()
    assert search.process.returncode == 0
    assert answer("check", placed, instance)["ok"]


def test_a_terminal_shows_how_far_the_search_is_and_is_left_clean() -> None:
    search = Search(timeout=2)
    shown = search.shown()
    assert "J.1048576.csv ... 1 s, peak " in shown
    assert " % over the bound" in shown
    assert shown.endswith("\r\x1b[K")
    assert "lower bound" in search.answer()


def test_with_json_a_terminal_shows_nothing() -> None:
    search = Search("--json", timeout=2)
    assert search.shown() == ""
    document = json.loads(search.answer())
    assert document["gap"] == document["peak"] - document["lower_bound"] > 0
    assert document["stopped"] is False


def test_a_peak_within_the_capacity_ends_the_search(answer: Answer) -> None:
    document = answer("plan", HARD, "--capacity", str(1 << 20), "--timeout", "600")
    assert document["lower_bound"] < document["peak"] <= 1 << 20
