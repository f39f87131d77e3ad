"""The ways in: make's targets, the scripts behind them, the benchmark."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import ROOT


def run(*command: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=300
    )


def test_make_alone_says_what_there_is() -> None:
    targets = re.search(r"^\.PHONY: (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert targets is not None
    result = run("make", "--no-print-directory")
    assert result.returncode == 0
    assert [line.split()[1] for line in result.stdout.splitlines()] == targets[1].split()


@pytest.mark.parametrize("group", ["build", "test", "python"])
def test_setting_up_a_second_time_does_nothing(group: str) -> None:
    result = run("tools/setup.sh", group)
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")


def test_a_stage_that_does_not_exist_is_an_error() -> None:
    result = run("tools/test.sh", "no_such_stage")
    assert result.returncode == 2
    assert "no_such_stage" in result.stderr


def test_the_benchmark_measures_what_it_is_given(tmp_path: Path) -> None:
    path = tmp_path / "small.csv"
    path.write_text("id,lower,upper,size\n0,0,10,4096\n1,2,5,1024\n")
    command = os.environ.get("STWEAVER_COMMAND", "build/release/stweaver")
    result = run(sys.executable, "bench/plan.py", path, "--command", command, "--json")
    assert result.returncode == 0, result.stderr
    (row,) = json.loads(result.stdout)
    assert (row["name"], row["requests"], row["peak"]) == ("small", 2, 5120)
    assert 0 < row["seconds"] < row["total_seconds"]
    assert row["memory"] > 1 << 20
