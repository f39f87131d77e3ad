"""Compile as CMake says, but take what a build of the same tree compiled already: a compiler launcher.

    cmake -B build/NEW -DCMAKE_CXX_COMPILER_LAUNCHER="python3;tools/reuse_objects.py;build/OLD;build/NEW" ...

An object is taken where OLD's compile_commands.json has its command: the same words but for the build's
folder and what cannot change an object. It depends on OLD's, which has to be up to date, and so is taken
again when that changes.
"""

import json
import os
import shlex
import shutil
import sys
from pathlib import Path

WITHOUT_EFFECT = {"-Werror", "-MD"}  # on the object
NAMED = {"-MT", "-MF"}  # with a file behind them: those that say what an object depends on


def words(command: list[str], folder: Path) -> tuple[str, ...]:
    """Return what makes the object that `command`, run in the build `folder`, writes."""
    compiler = Path(shutil.which(command[0]) or command[0]).resolve()
    rest = iter(command[1:])
    kept = [str(compiler)]
    for word in rest:
        if word in NAMED:
            next(rest)
        elif word not in WITHOUT_EFFECT:
            kept.append(word.replace(f"{folder}/", ""))
    return tuple(kept)


def value(command: list[str], option: str) -> str | None:
    """Return the word behind `option`; None where it is not there."""
    return command[command.index(option) + 1] if option in command[:-1] else None


def compiled(command: list[str], old: Path, new: Path) -> Path | None:
    """Return the object of the build `old` that `command` would make in `new`; None where there is none."""
    output = value(command, "-o")
    if output is None:
        return None
    for entry in json.loads((old / "compile_commands.json").read_text()):
        theirs = shlex.split(entry["command"])
        if value(theirs, "-o") == output and words(theirs, old) == words(command, new):
            return old / output if (old / output).is_file() else None
    return None


def main() -> None:
    """Take the object if there is one, else become the compiler."""
    old, new = (Path(folder).resolve() for folder in sys.argv[1:3])
    command = sys.argv[3:]
    found = compiled(command, old, new)
    if found is None:
        os.execvp(command[0], command)
    output = Path(value(command, "-o") or "")
    shutil.copyfile(found, output)
    if depends := value(command, "-MF"):
        Path(depends).write_text(f"{output}: {found}\n")


if __name__ == "__main__":
    main()
