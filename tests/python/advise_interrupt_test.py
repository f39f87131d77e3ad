"""Ctrl-C while `stweaver advise` looks for configurations."""

import json
import os
import pty
import signal
import subprocess
import time
from pathlib import Path

import pytest
from search_test import COMMAND, Search

pytestmark = pytest.mark.slow

# So deep, and on so many GPUs, that there are tens of millions of configurations.
MODEL = {
    "num_hidden_layers": 720,
    "hidden_size": 1024,
    "num_attention_heads": 16,
    "vocab_size": 32000,
    "intermediate_size": 4096,
}
ASKED = ["--gpus", "1048576", "--gpu", "h100", "--global-batch", "14414400", "--sequence", "65536"]


class Advising(Search):
    """The command looking for configurations, its standard error on a terminal."""

    def __init__(self, *arguments: str | Path, choices: int = 1) -> None:
        """Start it so that it hears of Ctrl-C, even where these tests run in the background and do not."""
        self.terminal, end = pty.openpty()
        inherited = signal.signal(signal.SIGINT, signal.default_int_handler)
        command = [COMMAND, "advise", *arguments, "--choices", str(choices)]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=end, text=True)
        signal.signal(signal.SIGINT, inherited)
        os.close(end)


@pytest.mark.parametrize("how", [["--exhaustive"], ["--evaluations", "1000000"]], ids=["all", "search"])
def test_ctrl_c_gives_the_best_so_far(tmp_path: Path, how: list[str]) -> None:
    model, page = tmp_path / "config.json", tmp_path / "front.html"
    model.write_text(json.dumps(MODEL))
    advising = Advising(model, *ASKED, *how, "-o", page)
    assert "of them seen" in advising.shown(until="of them seen")
    advising.process.send_signal(signal.SIGINT)
    answer = advising.answer()
    assert advising.process.returncode == 0
    assert "on the front, stopped early after " in answer
    assert '"stopped":true' in page.read_text()
    assert "--tensor-model-parallel-size" in answer


def test_what_was_stopped_has_not_seen_all(tmp_path: Path) -> None:
    model = tmp_path / "config.json"
    model.write_text(json.dumps(MODEL))
    advising = Advising(model, *ASKED, "--exhaustive", "--json")
    time.sleep(1)  # it shows no progress, and takes much longer
    advising.process.send_signal(signal.SIGINT)
    document = json.loads(advising.answer())
    assert document["stopped"]
    assert not document["exhaustive"]


def test_ctrl_c_before_anything_fits_is_no_answer(tmp_path: Path) -> None:
    model = tmp_path / "config.json"
    model.write_text(json.dumps(MODEL))
    advising = Advising(model, *ASKED, "--max-memory", "0.1", "--exhaustive")
    assert "of them seen" in advising.shown(until="of them seen")
    advising.process.send_signal(signal.SIGINT)
    assert advising.answer().startswith("stopped after ")
    assert advising.process.returncode == 1


def test_ctrl_c_ends_the_planning_of_choices() -> None:
    # A thousand are planned for seconds once the front is known.
    advising = Advising("llama3_8b", "--gpus", "1024", "--gpu", "h100", choices=1000)
    advising.shown(until="looking")
    advising.process.send_signal(signal.SIGINT)
    assert "--tensor-model-parallel-size" in advising.answer()
    assert advising.process.returncode == 0


def test_a_second_ctrl_c_ends_it_whatever_it_is_at(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    os.mkfifo(page)  # nobody reads it, so that it cannot even be opened
    advising = Advising("llama3_8b", "--gpus", "8", "--gpu", "h100", "-o", page)
    advising.shown(until="looking")  # for a second, which is longer than all of its work takes
    advising.process.send_signal(signal.SIGINT)
    time.sleep(0.2)
    assert advising.process.poll() is None
    advising.process.send_signal(signal.SIGINT)
    assert advising.answer() == ""
    assert advising.process.returncode == -signal.SIGINT
