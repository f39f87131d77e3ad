"""The layers of src/: each includes only what stands below it, and the core needs no other library."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SRC = ROOT / "src"

# Bottom to top. What a layer may include: everything before it, or what is named here.
LAYERS = ["base", "trace", "profile", "plan", "device", "arena", "runtime", "session"]
LAYERS += ["archive", "pareto", "simulate", "advise", "report", "cli"]
NARROWER = {"archive": ["base", "trace"], "arena": ["base", "trace", "device"], "pareto": ["base"]}
CORE = LAYERS[: LAYERS.index("session") + 1]
PROGRAMS = {"cli"}  # a program has nothing to offer to other layers, so no umbrella header

INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.MULTILINE)
# Standard C++ headers have no suffix; beside them the core may use these of C and POSIX.
SYSTEM_HEADERS = re.compile(r"[a-z_]+|(dlfcn|fcntl|pthread|sched|unistd|sys/[a-z]+|linux/[a-z]+)\.h")

PRESENT = [layer for layer in LAYERS if (SRC / layer).is_dir()]


def includes(layer: str) -> Iterator[tuple[Path, str, str]]:
    """Every include of a layer: the file it is in, the kind of quote, the path."""
    for path in sorted((SRC / layer).rglob("*")):
        if path.suffix in {".h", ".cc"}:
            for quote, included in INCLUDE.findall(path.read_text()):
                yield path.relative_to(ROOT), quote, included


@pytest.mark.parametrize("layer", PRESENT)
def test_a_layer_includes_only_layers_below_it(layer: str) -> None:
    allowed = {layer, *NARROWER.get(layer, LAYERS[: LAYERS.index(layer)])}
    wrong = [
        f"{path}: {included}"
        for path, quote, included in includes(layer)
        if quote == '"' and included.split("/")[0] not in allowed
    ]
    assert not wrong


@pytest.mark.parametrize("layer", PRESENT)
def test_an_include_of_ours_is_written_from_src(layer: str) -> None:
    wrong = [
        f"{path}: {included}"
        for path, quote, included in includes(layer)
        if quote == '"' and not (SRC / included).is_file()
    ]
    assert not wrong


@pytest.mark.parametrize("layer", [layer for layer in PRESENT if layer in CORE])
def test_the_core_includes_no_other_library(layer: str) -> None:
    wrong = [
        f"{path}: {included}"
        for path, quote, included in includes(layer)
        if quote == "<" and not SYSTEM_HEADERS.fullmatch(included)
    ]
    assert not wrong


@pytest.mark.parametrize("layer", [layer for layer in PRESENT if layer not in PROGRAMS])
def test_a_layer_has_an_umbrella_header_of_its_name(layer: str) -> None:
    umbrella = SRC / layer / f"{layer}.h"
    assert umbrella.is_file()
    others = {f"{layer}/{path.name}" for path in umbrella.parent.glob("*.h") if path != umbrella}
    offered = {included for path, _, included in includes(layer) if path == umbrella.relative_to(ROOT)}
    assert not others or offered & others, f"{umbrella} includes no header of its layer"


def test_every_folder_is_a_layer() -> None:
    assert sorted(path.name for path in SRC.iterdir() if path.is_dir()) == sorted(PRESENT)


def test_the_readme_lists_exactly_the_folders_there_are() -> None:
    rows = re.findall(r"^\|\s*`([^`]+)`\s*\|", (SRC / "README.md").read_text(), re.MULTILINE)
    listed = [row.removeprefix("src/").rstrip("/") for row in rows]
    assert listed == PRESENT, "src/README.md must list the layers bottom to top"
