"""What the libraries are made of."""

import os
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from nullcuda.error import Error
from programs import PACKAGES, PYTHON, needs_torch

from nullcuda import build, command, headers


@needs_torch
def test_nothing_of_its_own_cpp_is_exported() -> None:
    variables = {**os.environ, "PYTHONPATH": str(PACKAGES)}

    def output(*command: str) -> str:
        return subprocess.run(command, check=True, capture_output=True, text=True, env=variables).stdout

    folder = output(str(PYTHON), "-m", "nullcuda", "build").strip()
    names = output("nm", "-D", "--defined-only", f"{folder}/libnullcuda.so").split()
    assert "cuMemCreate" in names
    # It is loaded first: programs would take its std::locale for their library's, and free the wrong one.
    assert [name for name in names if name.startswith("_Z")] == []


def test_what_cannot_be_built_is_one_line_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    torch = SimpleNamespace(version="2.99", locate_file=lambda _: tmp_path)
    monkeypatch.setattr(build, "distribution", lambda: torch)
    monkeypatch.setattr(headers, "fetch", lambda *_: tmp_path)
    monkeypatch.setattr(build, "output", lambda *_: subprocess.check_output(["no-such-compiler"]))
    (tmp_path / "file").touch()
    for cache in (tmp_path / "cache", tmp_path / "file" / "cache"):
        monkeypatch.setenv("NULLCUDA_CACHE", str(cache))
        assert command.main(["build"]) == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert line.startswith(f"nullcuda: cannot build in {cache}: ")
    assert not list((tmp_path / "cache").iterdir())


@pytest.mark.parametrize("name", ["a folder", "a:folder"])
def test_a_cache_that_the_loader_would_split_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv("NULLCUDA_CACHE", str(tmp_path / name))
    with pytest.raises(Error, match="let NULLCUDA_CACHE name another folder"):
        build.cache()


def test_the_cache_is_an_absolute_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NULLCUDA_CACHE", "here")
    assert build.cache() == tmp_path / "here"
    monkeypatch.setenv("NULLCUDA_CACHE", "")
    monkeypatch.setenv("XDG_CACHE_HOME", "there")
    assert build.cache() == tmp_path / "there" / "nullcuda"


@pytest.mark.parametrize(
    "form", ["{}=={}; platform_system == 'Linux'", "{} (=={}) ; platform_system == 'Linux'"]
)
def test_headers_come_from_the_wheels_that_torch_names(form: str) -> None:
    names = {"nvidia-cuda-runtime-cu12": "12.4.127", "nvidia-nvtx-cu12": "12.4.127", "sympy": "1.13"}
    torch: Any = SimpleNamespace(requires=[form.format(*item) for item in names.items()])
    assert headers.requirements(torch) == [
        "nvidia-cuda-runtime-cu12==12.4.127",
        "nvidia-cuda-nvcc-cu12==12.4.*",
    ]
