"""The command `stweaver`, and `python -m stweaver`: `run` is done here, the rest by the native command."""

import json
import os
import sys
from collections.abc import Sequence

from stweaver import console, doctor, launcher, layout, variables
from stweaver.error import Error

BAD_INPUT = 2


def main(arguments: Sequence[str] | None = None) -> int:
    """Do what the arguments say; the exit status."""
    arguments = sys.argv[1:] if arguments is None else arguments
    try:
        return _dispatch(arguments)
    except Error as error:
        console.say(str(error))
        return BAD_INPUT


def _dispatch(arguments: Sequence[str]) -> int:
    subcommand = arguments[0] if arguments else ""
    if subcommand == "run":
        launcher.run(arguments[1:])
    if subcommand == "facts":  # what the native `doctor` asks for
        print(json.dumps(doctor.find()))
        return 0
    try:
        command = layout.find_command()
    except Error:
        if subcommand != "doctor":
            raise
        print(json.dumps(doctor.find()) if "--json" in arguments else doctor.text())
        return 0
    os.execve(command, [str(command), *arguments], {**os.environ, variables.PYTHON.full_name: sys.executable})
    return 0


if __name__ == "__main__":
    sys.exit(main())
