"""The documents: their links lead somewhere, and the commands they show can be typed."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import Run

ROOT = Path(__file__).resolve().parents[2]
HIDDEN = {"build", ".git", ".venv", ".deps", ".pytest_cache"}
DOCUMENTS = sorted(
    path.relative_to(ROOT)
    for path in ROOT.rglob("*.md")
    if not HIDDEN.intersection(path.relative_to(ROOT).parts)
)

LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
SHELLS = {"sh", "bash", "console"}
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


def shell_lines(document: Path) -> Iterator[str]:
    """Give the lines for a shell: of a block of no known kind, those that begin with a program."""
    for label, block in BLOCK.findall((ROOT / document).read_text()):
        for prompt_and_line in block.replace("\\\n", " ").splitlines():
            line = prompt_and_line.removeprefix("$ ")
            if label in SHELLS or (not label and line.partition(" ")[0] in PROGRAMS):
                yield line


def commands_in(document: Path) -> Iterator[list[str]]:
    for line in shell_lines(document):
        if words := line.split("#")[0].split():
            yield words


def test_the_commands_of_the_front_page_are_seen() -> None:
    shown = {tuple(words[:2]) for words in commands_in(Path("README.md"))}
    assert {("stweaver", "run"), ("build/release/stweaver", "check"), ("make", "demo")} <= shown


@pytest.mark.parametrize("document", DOCUMENTS, ids=str)
def test_every_command_shown_is_one_that_exists(document: Path) -> None:
    for words in commands_in(document):
        assert words[0] in PROGRAMS, f"{document}: {' '.join(words)}"


def test_every_option_of_ours_that_is_shown_exists(stweaver: Run, python: Run) -> None:
    shown: dict[str, set[str]] = {}
    for document in DOCUMENTS:
        for program, *words in commands_in(document):
            if Path(program).name == "stweaver" and words:
                ours = words[: words.index("--")] if "--" in words else words
                options = {word.partition("=")[0] for word in ours[1:] if word.startswith("--")}
                shown.setdefault(ours[0], set()).update(options)
    assert {"run", "plan", "advise"} <= shown.keys()
    for subcommand, options in shown.items():
        of_python = subcommand == "run"
        told = python("-m", "stweaver", "run", "--help") if of_python else stweaver(subcommand, "--help")
        assert told.returncode == 0, subcommand
        assert options <= set(re.findall(r"--[a-z][a-z-]*", told.stdout)), subcommand


def make_targets() -> set[str]:
    return set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))


@pytest.mark.parametrize("document", DOCUMENTS, ids=str)
def test_every_make_target_shown_exists(document: Path) -> None:
    shown = set(re.findall(r"\bmake ([a-z-]+)\b", "\n".join(shell_lines(document))))
    shown |= set(re.findall(r"`make ([a-z-]+)[^`]*`", (ROOT / document).read_text()))
    assert shown <= make_targets()


def words_of(document: str) -> list[str]:
    """Give the first column of its tables of words."""
    rows = re.findall(r"^\| ([^|]+) \|", (ROOT / document).read_text(), re.MULTILINE)
    return [word for row in rows[rows.index("word") + 1 :] for word in row.split(", ") if row != "---"]


def test_the_glossary_is_short_and_says_each_word_once() -> None:
    text = (ROOT / "docs/glossary.md").read_text()
    assert len(re.findall(r"^\| ", text, re.MULTILINE)) - 1 <= 25
    assert not set(words_of("docs/glossary.md")) & set(words_of("src/README.md"))


def test_every_bench_is_in_the_table_of_benches() -> None:
    table = (ROOT / "bench" / "README.md").read_text()
    programs = [
        path
        for path in (ROOT / "bench").rglob("*.*")
        if path.suffix in (".cc", ".py")
        and path.parent.name not in ("clients", "recorded")  # what others run
        and re.search(r"^(if __name__ ==|int main\()", path.read_text(), re.MULTILINE)
    ]
    assert len(programs) > 30
    missing = [path.name for path in programs if not re.search(rf"[`/]{path.stem}\b", table)]
    assert not missing
