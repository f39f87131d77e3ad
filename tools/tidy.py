"""Run clang-tidy on the sources and headers that standard input names, with a NUL behind each.

What it reads is what the compiler is given (build/tidy/compile_commands.json): tests are compiled several
files at a time, and read so; a header is read with one of the sources that include it. What was found clean
is not read again until it, a header that it includes, its settings, how it is compiled or clang-tidy changes.
"""

import hashlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import cache, cached_property
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / "build" / "tidy"


@cache
def includes(path: Path) -> list[str]:
    """List what a file includes in quotes: all that is ours."""
    return re.findall(r'^#include "([^"]*)"', path.read_text(), re.MULTILINE)


class Unit:
    """What the compiler is given at once: a source file, or one that includes several."""

    def __init__(self, path: Path, compilation: str = "") -> None:
        """Read which sources there are."""
        self.path = path
        self.compilation = compilation
        self.sources = [path]
        if path.name.startswith("unity_"):
            self.sources = [Path(name) for name in includes(path) if name.startswith("/")]

    @cached_property
    def headers(self) -> set[Path]:
        """Find what its sources include, and what that includes."""
        folders = [Path(folder) for folder in re.findall(r"-I *(\S+)", self.compilation)]
        found: set[Path] = set()
        waiting = list(self.sources)
        while waiting:
            path = waiting.pop()
            names = [[folder / name for folder in (path.parent, *folders)] for name in includes(path)]
            headers = [header.resolve() for some in names for header in some if header.is_file()]
            waiting += set(headers) - found
            found |= set(headers)
        return found

    def settings(self) -> list[Path]:
        """Find the settings of its sources, the nearest first; each may inherit the next."""
        folders = [folder for folder in self.sources[0].parents if folder.is_relative_to(ROOT)]
        return [path for folder in folders if (path := folder / ".clang-tidy").is_file()]

    def stamp(self) -> Path:
        """Name the file that says what was found clean."""
        return BUILD / "stamps" / str(self.path.relative_to(ROOT)).replace("/", "-")

    def command(self) -> list[str]:
        """Read it, under the settings of its sources; that it includes sources is no mistake."""
        command = ["clang-tidy", "--quiet", "-p", str(BUILD), str(self.path)]
        if self.path not in self.sources:
            command += [f"--config-file={self.settings()[0]}", "--checks=-bugprone-suspicious-include"]
        return command

    def digest(self, version: str) -> str:
        """Digest all that what clang-tidy says depends on."""
        digest = hashlib.sha256("\0".join([version, self.compilation, *self.command()]).encode())
        for path in [*self.sources, *sorted(self.headers), *self.settings()]:
            digest.update(path.read_bytes())
        return digest.hexdigest()


def units() -> list[Unit]:
    """List what is compiled, each once: some programs share sources. What a build makes is not there yet."""
    found: dict[Path, list[str]] = {}
    for entry in json.loads((BUILD / "compile_commands.json").read_text()):
        found.setdefault(Path(entry["file"]), []).append(entry["command"])
    return [Unit(path, " ".join(commands)) for path, commands in found.items() if path.is_file()]


def chosen(asked: set[Path], all_units: Iterable[Unit]) -> tuple[list[Unit], set[Path]]:
    """Choose the units of what was asked for, one more for a header that they lack; and say what none has."""
    found = [unit for unit in all_units if not asked.isdisjoint(unit.sources)]
    left = asked.difference(*(unit.headers.union(unit.sources) for unit in found))
    for unit in all_units:
        if not left.isdisjoint(unit.headers):
            found.append(unit)
            left -= unit.headers
    return found, left


def is_clean(unit: Unit, version: str) -> bool:
    """Read a unit, unless nothing changed since it was found clean; say what is wrong with it."""
    digest, stamp = unit.digest(version), unit.stamp()
    if stamp.is_file() and stamp.read_text() == digest:
        return True
    done = subprocess.run(unit.command(), cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        print(done.stdout, done.stderr, sep="", flush=True)
        return False
    stamp.parent.mkdir(parents=True, exist_ok=True)
    stamp.write_text(digest)
    return True


def main() -> int:
    """Read what was asked for."""
    asked = {ROOT / name for name in sys.stdin.read().split("\0") if name}
    found, left = chosen(asked, units())
    missing = {path for path in left if path.suffix == ".cc"}  # some headers are of the adapters alone
    for path in sorted(missing):
        print(f"{path.relative_to(ROOT)}: nothing in build/tidy/compile_commands.json compiles it")
    version = subprocess.run(["clang-tidy", "--version"], check=True, capture_output=True, text=True).stdout
    jobs = int(os.environ.get("JOBS") or os.cpu_count() or 1)
    with ThreadPoolExecutor(jobs) as pool:
        clean = list(pool.map(lambda unit: is_clean(unit, version), found))
    return 0 if all(clean) and not missing else 1


if __name__ == "__main__":
    sys.exit(main())
