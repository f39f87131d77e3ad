"""`stweaver run -- COMMAND`: the command as it is, with STWeaver in each of its processes that train."""

import argparse
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, NoReturn

from stweaver import hold, live, variables
from stweaver.error import Error

SITE = Path(__file__).resolve().parent / "site"
_EXAMPLE = "stweaver run -- python train.py"


class _Parser(argparse.ArgumentParser):
    """Its errors are one line, as those of every command are."""

    def error(self, message: str) -> NoReturn:
        raise Error(f"{message}; see stweaver run --help")


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="stweaver run",
        usage="stweaver run [OPTIONS] -- COMMAND [ARGUMENT ...]",
        description="Runs a training script under STWeaver, also under torchrun: a plan for each rank. "
        "A run without a plan records, plans and follows by itself, and keeps a plan for the next run.",
        epilog="Example: stweaver run -- torchrun --nproc-per-node 8 train.py",
        allow_abbrev=False,
    )
    parser.add_argument("--plans", metavar="DIR", help="keep plans here (default .stweaver)")
    parser.add_argument("--no-plan", action="store_true", help="neither use a saved plan nor keep one")
    parser.add_argument("--record", metavar="FILE", help="also record the job's first steps into this file")
    parser.add_argument(
        "--hold",
        metavar="GIB",
        type=float,
        help="hold so much before memory is moved: faster where steps differ (default: what is used, and a "
        "little)",
    )
    parser.add_argument(
        "--device", choices=("cuda", "cpu"), help="whose memory (default: cuda where there is a GPU)"
    )
    parser.add_argument(
        "--live",
        metavar="RANK",
        type=int,
        nargs="?",
        const=0,
        help="show on standard error how it goes, of rank 0 unless another is named",
    )
    loudness = parser.add_mutually_exclusive_group()
    loudness.add_argument("--verbose", action="store_true", help="a line for each transition")
    loudness.add_argument("--quiet", action="store_true", help="not even the line at exit")
    return parser


class Request(NamedTuple):
    """What `stweaver run` sets, which command it runs, and the rank that is shown, if any."""

    settings: dict[str, str]
    command: list[str]
    live: int | None


def parse(arguments: Sequence[str]) -> Request:
    """Read the arguments behind `run`; Error for bad usage."""
    arguments = list(arguments)
    end = arguments.index("--") if "--" in arguments else len(arguments)
    parser, command = _parser(), arguments[end + 1 :]
    options, unknown = parser.parse_known_args(arguments[:end])
    if unknown:
        parser.error(f"{' '.join(unknown)}: no option; name the command after --, as in: {_EXAMPLE}")
    if not command:
        parser.error(f"name the command after --, as in: {_EXAMPLE}")
    if options.live is not None and options.live < 0:
        parser.error(f"--live {options.live}: ranks count from 0")
    settings = {variables.RUN: "1"}
    try:
        plans = options.plans or variables.PLANS.value or ".stweaver"
        settings[variables.PLANS] = "" if options.no_plan else _absolute(plans)
        if options.record:
            settings[variables.RECORD] = _absolute(options.record)
        if options.hold is not None:
            hold.bytes_of(options.hold)
            settings[variables.HOLD] = str(options.hold)
    except Error as error:
        parser.error(str(error))
    if options.device:
        settings[variables.DEVICE] = options.device
    if options.verbose or options.quiet:
        settings[variables.VERBOSE] = "1" if options.verbose else "0"
    path = os.pathsep.join(filter(None, [str(SITE), os.environ.get("PYTHONPATH")]))
    named = {variable.full_name: value for variable, value in settings.items()}
    return Request(named | {"PYTHONPATH": path}, command, options.live)


def _absolute(path: str) -> str:
    """Complete a path; in --plans=~/plans no shell has put the home folder."""
    try:
        return str(variables.expand(path, path).absolute())
    except FileNotFoundError:
        raise Error(f"{path}: the current folder was removed; go to one that is there") from None


def run(arguments: Sequence[str]) -> NoReturn:
    """Become the command; Error when it cannot be started."""
    settings, command, rank = parse(arguments)
    if rank is not None:
        settings[variables.LIVE.full_name] = str(live.start(rank))
    if sys.stdout is not None:  # else it is closed
        sys.stdout.flush()
    for ignored in (signal.SIGPIPE, signal.SIGXFSZ):  # by Python, and then by whatever it becomes
        signal.signal(ignored, signal.SIG_DFL)
    try:
        os.execvpe(command[0], command, {**os.environ, **settings})
    except OSError as error:
        hint = f"; write: stweaver run -- python {command[0]}" if command[0].endswith(".py") else ""
        raise Error(f"cannot run {command[0]}: {error.strerror}{hint}") from None
