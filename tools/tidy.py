"""Run clang-tidy on the source files that standard input names, with a NUL behind each.

What it reads is what the compiler is given (build/tidy/compile_commands.json): tests are compiled several
files at a time, and read so. What was found clean is not read again until it, a header or a setting changes.
"""

import hashlib
import json
import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / "build" / "tidy"
HEADERS = ["src", "tests", "torch", "nullcuda"]
SETTINGS = [".clang-tidy", "bench/.clang-tidy", "tests/.clang-tidy", "nullcuda/tests/model/.clang-tidy"]


class Unit:
    """What the compiler is given at once: a source file, or one that includes several."""

    def __init__(self, path: Path) -> None:
        """Read which sources there are."""
        self.path = path
        self.sources = [path]
        if path.name.startswith("unity_"):
            includes = re.findall(r'^#include "(/.*)"$', path.read_text(), re.MULTILINE)
            self.sources = [Path(name) for name in includes]

    def settings(self) -> Path:
        """Find the settings of its sources."""
        return next(
            folder / ".clang-tidy" for folder in self.sources[0].parents if (folder / ".clang-tidy").is_file()
        )

    def stamp(self) -> Path:
        """Name the file that says what was found clean."""
        return BUILD / "stamps" / str(self.path.relative_to(ROOT)).replace("/", "-")

    def command(self) -> list[str | Path]:
        """Read it, under the settings of its sources; that it includes sources is no mistake."""
        command: list[str | Path] = ["clang-tidy", "--quiet", "-p", BUILD, self.path]
        if self.path not in self.sources:
            command += [f"--config-file={self.settings()}", "--checks=-bugprone-suspicious-include"]
        return command


def units() -> list[Unit]:
    """List what is compiled, each once: some programs share sources."""
    commands = json.loads((BUILD / "compile_commands.json").read_text())
    return [Unit(path) for path in dict.fromkeys(Path(entry["file"]) for entry in commands)]


def state_of_headers() -> bytes:
    """Digest what all units depend on."""
    digest = hashlib.sha256()
    files = [path for folder in HEADERS for path in (ROOT / folder).rglob("*.h")]
    for path in [*sorted(files), *(ROOT / folder for folder in SETTINGS)]:
        digest.update(path.read_bytes())
    return digest.digest()


def is_clean(unit: Unit, headers: bytes) -> bool:
    """Read a unit, unless nothing changed since it was found clean; say what is wrong with it."""
    digest = hashlib.sha256(headers)
    for source in unit.sources:
        digest.update(source.read_bytes())
    stamp = unit.stamp()
    if stamp.is_file() and stamp.read_text() == digest.hexdigest():
        return True
    done = subprocess.run(unit.command(), cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        print(done.stdout, done.stderr, sep="", flush=True)
        return False
    stamp.parent.mkdir(parents=True, exist_ok=True)
    stamp.write_text(digest.hexdigest())
    return True


def main() -> int:
    """Read what was asked for."""
    asked = {ROOT / name for name in sys.stdin.read().split("\0") if name}
    found = [unit for unit in units() if not asked.isdisjoint(unit.sources)]
    missing = asked.difference(source for unit in found for source in unit.sources)
    for path in sorted(missing):
        print(f"{path.relative_to(ROOT)}: nothing in build/tidy/compile_commands.json compiles it")
    headers = state_of_headers()
    jobs = int(os.environ.get("JOBS") or os.cpu_count() or 1)
    with ThreadPoolExecutor(jobs) as pool:
        clean = list(pool.map(lambda unit: is_clean(unit, headers), found))
    return 0 if all(clean) and not missing else 1


if __name__ == "__main__":
    sys.exit(main())
