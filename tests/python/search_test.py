"""`stweaver plan` while it searches: what a terminal shows, and how the search is ended."""

import json
import os
import pty
import random
import signal
import subprocess
from pathlib import Path

import pytest
from conftest import ROOT, Answer

pytestmark = pytest.mark.slow

COMMAND = ROOT / os.environ.get("STWEAVER_COMMAND", "build/release/stweaver")


def crowd(path: Path, count: int, largest: int, end: int, longest: int) -> Path:
    """Write an instance of `count` requests of up to `largest` bytes that live up to `longest` events."""
    source = random.Random(1)
    rows = []
    for number in range(count):
        birth = source.randint(0, end)
        rows.append(f"{number},{birth},{birth + source.randint(1, longest)},{source.randint(1, largest)}")
    path.write_text("\n".join(["id,lower,upper,size", *rows]) + "\n")
    return path


@pytest.fixture(scope="module")
def hard(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write one whose search goes on: it finds nothing at the bound, and no proof that there is nothing."""
    return crowd(tmp_path_factory.mktemp("hard") / "hard.csv", 450, 1 << 14, 600, 100)


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write one that keeps the constructors busy for seconds."""
    return crowd(tmp_path_factory.mktemp("large") / "large.csv", 30_000, 1 << 20, 60_000, 4_000)


class Search:
    """The command planning an instance, its standard error on a terminal."""

    def __init__(self, instance: Path, *arguments: str | Path, timeout: float) -> None:
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


@pytest.mark.parametrize(("name", "sign"), [("hard", "over the bound"), ("large", "1 s")])
def test_ctrl_c_keeps_the_best_plan(
    answer: Answer, request: pytest.FixtureRequest, tmp_path: Path, name: str, sign: str
) -> None:
    placed, instance = tmp_path / "placed.csv", request.getfixturevalue(name)
    search = Search(instance, "-o", placed, "--threads", "1", timeout=600)
    assert sign in search.shown(until=sign)
    search.process.send_signal(signal.SIGINT)
    assert "stopped before its time: this is the best plan until then" in search.answer()
    assert search.process.returncode == 0
    assert answer("check", placed, instance)["ok"]


def test_a_terminal_shows_how_far_the_search_is_and_is_left_clean(hard: Path) -> None:
    search = Search(hard, timeout=2)
    shown = search.shown()
    assert "hard.csv ... 1 s, peak " in shown
    assert " % over the bound" in shown
    assert shown.endswith("\r\x1b[K")
    assert "lower bound" in search.answer()


def test_with_json_a_terminal_shows_nothing(hard: Path) -> None:
    search = Search(hard, "--json", timeout=2)
    assert search.shown() == ""
    document = json.loads(search.answer())
    assert document["gap"] == document["peak"] - document["lower_bound"] > 0
    assert document["stopped"] is False


def test_a_peak_within_the_capacity_ends_the_search(answer: Answer, hard: Path) -> None:
    capacity = answer("plan", hard, "--timeout", "0")["lower_bound"] * 103 // 100
    document = answer("plan", hard, "--capacity", str(capacity), "--timeout", "600")
    assert document["lower_bound"] < document["peak"] <= capacity
