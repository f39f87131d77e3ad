"""The documents: their links lead somewhere, and the commands they show can be typed."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
HIDDEN = {"build", ".git", ".venv", ".deps", ".pytest_cache"}
DOCUMENTS = sorted(
    path.relative_to(ROOT)
    for path in ROOT.rglob("*.md")
    if not HIDDEN.intersection(path.relative_to(ROOT).parts)
)

LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
SHELL_BLOCK = re.compile(r"^```(?:sh|bash|console)\n(.*?)^```", re.MULTILINE | re.DOTALL)
PROGRAMS = {"make", "stweaver", "build/release/stweaver", "git", "cd", "python3", "pip", "export", "source"}


@pytest.mark.parametrize("document", DOCUMENTS, ids=str)
def test_every_relative_link_leads_to_a_file(document: Path) -> None:
    links = [link.split("#")[0] for link in LINK.findall((ROOT / document).read_text())]
    broken = [
        link
        for link in links
        if link and "://" not in link and not (ROOT / document).parent.joinpath(link).exists()
    ]
    assert not broken


@pytest.mark.parametrize("document", DOCUMENTS, ids=str)
def test_every_command_shown_is_one_that_exists(document: Path) -> None:
    for block in SHELL_BLOCK.findall((ROOT / document).read_text()):
        for line in block.replace("\\\n", " ").splitlines():
            words = line.removeprefix("$ ").split("#")[0].split()
            assert not words or words[0] in PROGRAMS, f"{document}: {line}"


def make_targets() -> set[str]:
    return set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))


@pytest.mark.parametrize("document", DOCUMENTS, ids=str)
def test_every_make_target_shown_exists(document: Path) -> None:
    shown = set(
        re.findall(r"\bmake ([a-z-]+)\b", "\n".join(SHELL_BLOCK.findall((ROOT / document).read_text())))
    )
    shown |= set(re.findall(r"`make ([a-z-]+)[^`]*`", (ROOT / document).read_text()))
    assert shown <= make_targets()
