"""The package as pip installs it from source: no network, no isolation, no command, for want of CLI11.

It is built where the wheel was, so that what the two share is compiled once; it is linked as on any machine.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import wheel

ROOT = Path(__file__).resolve().parents[2]


def call(*command: str | Path, **variables: str | Path) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("STWEAVER_")}
    return subprocess.run(
        command,
        cwd=wheel.FOLDER,
        env=environment | {name: str(value) for name, value in variables.items()},
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        timeout=1800,
    )


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Install into a folder of its own, once."""
    wheel.FOLDER.mkdir(parents=True, exist_ok=True)
    folder = tmp_path_factory.mktemp("installed")
    how = ("--quiet", "--no-build-isolation", "--no-index", "--no-deps", "--disable-pip-version-check")
    settings = (
        f"build-dir={wheel.FOLDER / 'build'}",
        "cmake.define.CMAKE_UNITY_BUILD=ON",
        f"cmake.define.CMAKE_CXX_COMPILER_LAUNCHER={wheel.REUSE}",
        "cmake.define.STWEAVER_GLIBC=",
        "cmake.define.STWEAVER_TORCH=",
        "cmake.define.CMAKE_DISABLE_FIND_PACKAGE_CLI11=ON",
    )
    options = [f"--config-settings={setting}" for setting in settings]
    result = call(sys.executable, "-m", "pip", "install", *how, *options, "--target", folder, ROOT)
    assert result.returncode == 0, result.stdout + result.stderr
    return folder


@pytest.fixture(scope="module")
def adapter_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a folder in which adapters are built once."""
    return tmp_path_factory.mktemp("adapters")


def test_one_wheel_serves_every_python(installed: Path) -> None:
    (metadata,) = installed.glob("stweaver-*.dist-info/WHEEL")
    assert "Tag: py3-none-linux_" in metadata.read_text()
    assert (installed / "stweaver" / "py.typed").is_file()


def test_the_installed_package_builds_its_adapter_and_trains(installed: Path, adapter_cache: Path) -> None:
    program = (
        "import stweaver, torch; stweaver.enable(device='cpu'); torch.ones(1 << 20)\n"
        "print(stweaver.__file__, stweaver.stats().misses)"
    )
    result = call(sys.executable, "-c", program, PYTHONPATH=installed, STWEAVER_CACHE=adapter_cache)
    assert result.returncode == 0, result.stderr
    assert result.stdout == f"{installed / 'stweaver' / '__init__.py'} 1\n"


def test_the_installed_launcher_runs_jobs(installed: Path, adapter_cache: Path) -> None:
    variables = {"PYTHONPATH": installed, "STWEAVER_CACHE": adapter_cache}
    run = (installed / "bin" / "stweaver", "run", "--no-plan", "--device", "cpu", "--", sys.executable, "-c")
    result = call(*run, "import torch; torch.ones(1 << 20)", **variables)
    assert result.returncode == 0
    assert "0 % of 1 requests planned; followed no plan" in result.stderr


def test_a_subcommand_that_was_left_out_says_why(installed: Path) -> None:
    result = call(installed / "bin" / "stweaver", "plan", "job.trace", PYTHONPATH=installed)
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr == (
        "stweaver: this package was built without the command, for want of CLI11; "
        "install that and then the package again\n"
    )


def test_doctor_does_without_the_command(installed: Path) -> None:
    result = call(installed / "bin" / "stweaver", "doctor", PYTHONPATH=installed)
    assert result.returncode == 0
    assert "core library" in result.stdout
    assert "STWEAVER_RUN" in result.stdout
