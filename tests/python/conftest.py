"""What the tests of the command share: running it, and input made for them."""

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
TRACES = ROOT / "examples" / "traces"

Run = Callable[..., subprocess.CompletedProcess[str]]
Answer = Callable[..., Any]


@pytest.fixture(scope="session")
def stweaver() -> Run:
    """Run the command with arguments; STWEAVER_COMMAND names another build of it."""
    command = ROOT / os.environ.get("STWEAVER_COMMAND", "build/release/stweaver")
    assert command.is_file(), f"{command} is missing: run make build"

    def run(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [command, *arguments], capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=300
        )

    return run


@pytest.fixture(scope="session")
def answer(stweaver: Run) -> Answer:
    """Run the command with --json and return the document that it prints; it must say nothing else."""

    def run(*arguments: str | Path, status: int = 0) -> Any:  # noqa: ANN401  (a JSON document)
        result = stweaver(*arguments, "--json")
        assert result.returncode == status, result.stderr
        assert result.stderr == ""
        return json.loads(result.stdout)

    return run
