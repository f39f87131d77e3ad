"""What the command line asks for: build the libraries, say where they are, run a program on them."""

import argparse
import os
import re
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from nullcuda import build
from nullcuda.error import Error

SITE = Path(__file__).resolve().parent / "site"
PACKAGES = Path(__file__).resolve().parents[1]


def parser() -> argparse.ArgumentParser:
    """Return what reads the command line."""
    top = argparse.ArgumentParser(prog="nullcuda", description="Run CUDA programs without a GPU.")
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND")
    commands.add_parser("build", help="build the libraries for the installed torch and print their folder")
    commands.add_parser("version", help="print the version of the installed torch")
    run = commands.add_parser("run", help="run a program: nullcuda run [OPTIONS] -- PROGRAM ARGUMENTS")
    run.add_argument("--gpu", metavar="NAME", help="h200 (default), h100, a100, a100-40gb, b200, rtx4090")
    run.add_argument(
        "--memory", type=int, metavar="MIB", help="memory of each device, where not the GPU's own"
    )
    run.add_argument("--devices", type=int, metavar="N", help="how many GPUs (default 1)")
    run.add_argument(
        "--rank", type=int, metavar="R", help="be rank R of --world N, whose others are not there"
    )
    run.add_argument("--world", type=int, metavar="N")
    run.add_argument("--values", action="store_true", help="compute small values that the program reads")
    run.add_argument("--values-limit", type=int, metavar="N", help="elements of the largest tensor computed")
    run.add_argument("--routing", metavar="RULE", help="of experts: even (default), seed:N or a file")
    run.add_argument("--check", action="store_true", help="stop where memory is used wrongly or out of order")
    run.add_argument(
        "--events", metavar="WHEN", help="done at_once (default), delay:CALLS, random:SEED[/CALLS]"
    )
    run.add_argument(
        "--fail", metavar="RULES", help="calls that fail: cuMemCreate@7=2,cudaMalloc%%SEED/100=2"
    )
    run.add_argument(
        "--report", metavar="FILE", help="append a line of JSON for each process; %%p: its number"
    )
    run.add_argument("--log", type=int, metavar="LEVEL", help="1: a summary at the end; 2: first calls too")
    run.add_argument("program", nargs=argparse.REMAINDER, metavar="-- PROGRAM")
    return top


def prepended(name: str, values: Sequence[str], separator: str) -> str:
    """Return the variable `name` with `values` before what it holds."""
    before = os.environ.get(name)
    return separator.join([*values, before] if before else values)


def environment(options: argparse.Namespace, libraries: Path) -> dict[str, str]:
    """Return the variables under which a program sees null CUDA."""
    ours = sorted(str(path) for path in libraries.glob("lib*.so*"))
    ours.sort(key=lambda path: not path.endswith(build.LIBRARY))  # the others lead to it
    variables = {
        "LD_PRELOAD": prepended("LD_PRELOAD", ours, ":"),
        "LD_LIBRARY_PATH": prepended("LD_LIBRARY_PATH", [str(libraries)], ":"),
        "PYTHONPATH": prepended("PYTHONPATH", [str(SITE), str(PACKAGES)], os.pathsep),
        "TRITON_LIBCUDA_PATH": str(libraries),
        "NULLCUDA_LIBRARIES": str(libraries),
    }
    return variables | settings(options)


def settings(options: argparse.Namespace) -> dict[str, str]:
    """Return the variables that say what null CUDA is asked to be."""
    world = options.world or 0
    given = {
        "NULLCUDA_GPU": options.gpu,
        "NULLCUDA_MEMORY_MIB": options.memory,
        "NULLCUDA_DEVICES": min(world, 8) if world and options.devices is None else options.devices,
        "NULLCUDA_RANK": options.rank or (0 if world else None),
        "NULLCUDA_WORLD": options.world,
        "NULLCUDA_VALUES": "1"
        if options.values or options.check or world
        else None,  # objects are sent as tensors
        "NULLCUDA_VALUES_LIMIT": options.values_limit,
        "NULLCUDA_ROUTING": options.routing,
        "NULLCUDA_CHECK": "1" if options.check else None,
        "NULLCUDA_EVENTS": options.events,
        "NULLCUDA_FAIL": options.fail,
        "NULLCUDA_REPORT": options.report,
        "NULLCUDA_LOG": options.log,
    }
    return {name: str(value) for name, value in given.items() if value is not None}


def check_routing(rule: str) -> None:
    """Error for a rule that is none: it would show in the midst of the job, as experts with equal shares."""
    if rule == "even" or re.fullmatch(r"seed:[0-9]{1,19}", rule):
        return
    if rule.startswith("seed:"):
        raise Error(f"--routing {rule}: a seed is a whole number")
    try:
        text = Path(rule).read_text(errors="replace")
    except OSError as error:
        raise Error(f"--routing {rule}: {error.strerror}; write even, seed:N or a file of counts") from None
    if not re.search(r"\[[^\]]*\d[^\]]*\]", text):
        raise Error(f"--routing {rule}: no counts in it; a line for each call, as in [12, 4, 0, 16]")


def run(options: argparse.Namespace) -> int:
    """Become the program."""
    program = options.program[1:] if options.program[:1] == ["--"] else options.program
    if not program:
        raise Error("nothing to run; write: nullcuda run [OPTIONS] -- PROGRAM ARGUMENTS")
    if shutil.which(program[0]) is None:
        raise Error(f"no such program: {program[0]}")
    if options.rank is not None and not 0 <= options.rank < (options.world or 0):
        raise Error(f"--rank {options.rank} is none of --world {options.world or 0} ranks")
    if (routing := options.routing or os.environ.get("NULLCUDA_ROUTING")) is not None:
        check_routing(routing)
    if options.world is not None and options.world < 1:
        raise Error(f"--world {options.world}: a job has one rank at least")
    os.environ.update(environment(options, build.build()))
    try:
        os.execvp(program[0], program)
    except OSError as error:
        raise Error(f"cannot run {program[0]}: {error.strerror}") from None


def main(arguments: Sequence[str]) -> int:
    """Do what the command line asks for; return the exit status."""
    options = parser().parse_args(arguments)
    try:
        if options.command == "run":
            return run(options)
        print(build.build() if options.command == "build" else build.distribution().version)
    except Error as error:
        print(f"nullcuda: {error}", file=sys.stderr)
        return 2
    return 0
