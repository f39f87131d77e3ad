"""What the tests of the command share: running it, and input made for them."""

import json
import os
import pickle
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from browser import chromium
from playwright.sync_api import Browser

ROOT = Path(__file__).resolve().parents[2]
TRACES = ROOT / "examples" / "traces"

# What a shell runs in the background inherits that interrupts are ignored, and hands that on.
signal.signal(signal.SIGINT, signal.default_int_handler)

Run = Callable[..., subprocess.CompletedProcess[str]]
Answer = Callable[..., Any]


def write_run(path: Path, sizes: dict[str, int]) -> Path:
    """Write a snapshot in which each function holds that many bytes."""
    events = [
        {
            "action": "alloc",
            "addr": (1 + index) << 30,
            "size": size,
            "stream": 0,
            "time_us": index,
            "frames": [{"name": function, "filename": "/job/train.py", "line": 1 + index}],
        }
        for index, (function, size) in enumerate(sizes.items())
    ]
    return write_events(path, events)


def write_events(path: Path, events: list[dict[str, Any]]) -> Path:
    """Write a snapshot of one device's events."""
    path.write_bytes(pickle.dumps({"segments": [], "device_traces": [events], "allocator_settings": {}}))
    return path


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


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Start one browser for all tests of a file."""
    with chromium() as started:
        yield started


@pytest.fixture(scope="session")
def common_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Name the folder of this run of the tests, of all its processes where there are several."""
    folder = tmp_path_factory.getbasetemp()
    return folder.parent if "PYTEST_XDIST_WORKER" in os.environ else folder


@pytest.fixture(scope="session")
def adapter_cache(common_folder: Path) -> Path:
    """Make a folder in which adapters are built once for all tests."""
    folder = common_folder / "adapters"
    folder.mkdir(exist_ok=True)
    return folder


@pytest.fixture(scope="session")
def python(adapter_cache: Path) -> Run:
    """Run Python with the package of this checkout; keywords are environment variables, None for unset."""
    ours = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("STWEAVER_") or name == "STWEAVER_LIBRARY"
    }
    ours |= {"PYTHONPATH": str(ROOT / "python"), "STWEAVER_CACHE": str(adapter_cache)}

    def run(
        *arguments: str | Path, cwd: Path = ROOT, **variables: str | Path | None
    ) -> subprocess.CompletedProcess[str]:
        environment = {name: str(value) for name, value in {**ours, **variables}.items() if value is not None}
        return subprocess.run(
            [sys.executable, *arguments],
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            timeout=300,
            cwd=cwd,
            env=environment,
        )

    return run
