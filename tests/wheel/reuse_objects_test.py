"""The launcher of the wheel's compiler takes objects of the release build whose commands are the same."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import reuse_objects

COMPILER = "c++"


def build(folder: Path, options: str) -> Path:
    folder.mkdir()
    command = f"{COMPILER} {options} -I{folder}/generated -o a.o -c {folder.parent}/a.cc"
    (folder / "compile_commands.json").write_text(json.dumps([{"command": command, "file": "a.cc"}]))
    (folder / "a.o").write_text("an object")
    return folder


def launch(tmp_path: Path, options: str) -> Path:
    (tmp_path / "a.cc").write_text("int a;\n")
    (new := tmp_path / "new").mkdir()
    tool = (sys.executable, reuse_objects.__file__, tmp_path / "old", new)
    words = f"{options} -I{new}/generated -MD -MT a.o -MF a.o.d -o a.o -c {tmp_path}/a.cc".split()
    subprocess.run([*tool, COMPILER, *words], cwd=new, check=True)
    return new


def test_an_object_of_the_same_command_is_taken_and_depends_on_the_one_it_was(tmp_path: Path) -> None:
    build(tmp_path / "old", "-O2 -Werror")
    new = launch(tmp_path, "-O2")
    assert (new / "a.o").read_text() == "an object"
    assert (new / "a.o.d").read_text() == f"a.o: {tmp_path / 'old' / 'a.o'}\n"


@pytest.mark.parametrize("options", ["-O1", "-O2 -DNDEBUG", ""])
def test_an_object_of_another_command_is_compiled(tmp_path: Path, options: str) -> None:
    build(tmp_path / "old", "-O2")
    new = launch(tmp_path, options)
    assert (new / "a.o").read_bytes().startswith(b"\x7fELF")
    assert "a.cc" in (new / "a.o.d").read_text()


def test_an_object_that_is_gone_is_compiled(tmp_path: Path) -> None:
    (build(tmp_path / "old", "-O2") / "a.o").unlink()
    assert (launch(tmp_path, "-O2") / "a.o").read_bytes().startswith(b"\x7fELF")
