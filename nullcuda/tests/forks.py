"""Programs that run on null CUDA, each in a fork of a process that has imported PyTorch.

The import takes most of the time of a small program. This file is that process, too, when it is run: a line
of JSON on standard input says what the next fork runs, a line on standard output says how it ended.
"""

import atexit
import json
import os
import runpy
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

SECONDS = 300  # a program that takes longer is killed
running: dict[str, "subprocess.Popen[str]"] = {}


def run(
    python: Path, program: Sequence[str | Path], options: Sequence[str], variables: Mapping[str, str]
) -> "subprocess.CompletedProcess[str]":
    """Run a script and its arguments as `nullcuda run OPTIONS` does, with `variables` as the environment."""
    from nullcuda import command  # the process that forks has no need of it

    parsed = command.parser().parse_args(["run", *options, "--", str(python)])
    settings = command.settings(parsed)
    # Null CUDA reads them when it is first called: where values are watched, while PyTorch is imported.
    early = {**variables, **settings} if "NULLCUDA_VALUES" in settings else dict(variables)
    early.pop("PYTEST_CURRENT_TEST", None)  # another for each test
    process = importer(python, early)
    with tempfile.TemporaryDirectory() as folder:
        files = [Path(folder, name) for name in ("out", "err")]
        request = {"program": program, "settings": settings, "files": files}
        assert process.stdin is not None
        assert process.stdout is not None
        print(json.dumps(request, default=str), file=process.stdin, flush=True)
        status = process.stdout.readline()
        assert status, "the process that has imported PyTorch is gone"
        out, err = (file.read_text() for file in files)
    return subprocess.CompletedProcess(program, int(status), out, err)


def run_alone(
    python: Path, program: Sequence[str | Path], options: Sequence[str], variables: Mapping[str, str]
) -> "subprocess.CompletedProcess[str]":
    """Do the same in a process of its own; `program` may be more than a script and its arguments."""
    command = [python, "-m", "nullcuda", "run", *options, "--", python, *program]
    return subprocess.run(
        command, env=variables, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=SECONDS
    )


def importer(python: Path, variables: Mapping[str, str]) -> "subprocess.Popen[str]":
    """Return the process that has imported PyTorch; one at a time, for each holds hundreds of megabytes."""
    name = json.dumps([str(python), variables], sort_keys=True)
    if name not in running:
        end_importer()
        running[name] = subprocess.Popen(
            [python, "-m", "nullcuda", "run", "--", python, __file__],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=variables,
        )  # fmt: skip
    return running[name]


@atexit.register
def end_importer() -> None:
    """End it, if there is one: it does when it has nothing more to read."""
    while running:
        running.popitem()[1].communicate()


def next_program() -> list[str]:
    """Return, in a new fork, what it is to run; in the first process, nothing when there is no more to do."""
    for line in sys.stdin:
        request = json.loads(line)
        fork = os.fork()
        if fork == 0:
            os.environ.update(request["settings"])
            for descriptor, name in enumerate([os.devnull, *request["files"]]):
                os.dup2(os.open(name, os.O_RDWR | os.O_CREAT), descriptor)
            signal.alarm(SECONDS)
            return list(request["program"])
        _, status = os.waitpid(fork, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)
    return []


if __name__ == "__main__":
    import torch._dynamo  # noqa: F401  # every optimizer imports it

    if program := next_program():
        sys.argv[:] = program
        sys.path[0] = str(Path(program[0]).parent)
        runpy.run_path(program[0], run_name="__main__")
