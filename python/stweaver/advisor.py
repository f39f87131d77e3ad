"""Which configuration to train with: the command's `advise`, as typed values."""

import json
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from stweaver import layout
from stweaver.error import Error
from stweaver.session import PathLike

_NOTHING_FITS = 1


@dataclass(frozen=True)
class Configuration:
    """How a job is spread over GPUs, and what it trades for memory."""

    gpus: int
    tp: int
    pp: int
    short_last: bool  # the last stage has fewer layers, for its output layer
    virtual_stages: int
    cp: int
    ep: int
    dp: int
    zero: int
    micro_batch: int
    global_batch: int
    sequence: int
    recompute: str
    recompute_layers: int
    offload_optimizer: bool
    precision: str


@dataclass(frozen=True)
class Choice:
    """A configuration of the front; sizes in bytes, of the fullest rank."""

    configuration: Configuration
    step_seconds: float
    tokens_per_second: float
    gpu_hours_per_billion_tokens: float
    headroom: float  # times as long a sequence would fit
    requested: int
    reserved: int  # with a plan
    reserved_native: int
    reserved_expandable: int
    host: int  # of optimizer states that are there, where the configuration has them there
    stage: int
    megatron: str | None  # its settings; None where it cannot run it, or was not asked for
    torchtitan: str | None
    deepspeed: dict[str, Any] | None


@dataclass(frozen=True)
class Advice:
    """The clear choices of a front, by step time, and how they were found."""

    choices: tuple[Choice, ...]
    front: int  # configurations on the front
    evaluations: int
    exhaustive: bool
    seconds: float


def advise(
    model: PathLike,
    *,
    gpus: int,
    gpu: str,
    nodes: int | None = None,
    link: str = "nvlink",
    network: float | None = None,
    allocator: str = "stweaver",
    calibrate: Sequence[str] = (),
    sequence: int | None = None,
    global_batch: int | None = None,
    precision: str = "bf16",
    modules: str | None = None,
    software: Sequence[str] = (),
    constants: PathLike | None = None,
    max_memory: float | None = None,
    fix: Mapping[str, int | str] | None = None,
    objectives: Sequence[str] = (),
    choices: int = 12,
    exhaustive: bool = False,
) -> Advice:
    """Look for the configurations of a training job that no other beats; docs/advise.md says how.

    Args:
        model: `config.json` of a transformers model, or the name of a public one.
        gpus: at most so many.
        gpu: their kind, such as "h200".
        nodes: that they are in; None: nodes as the maker builds them.
        link: inside a node: nvlink, pcie3, pcie4, pcie5.
        network: GB/s of each GPU between nodes; None: the usual.
        allocator: whose peak has to fit: stweaver, expandable, default.
        calibrate: recorded ranks and what they were of, as "TRACE:gpus=32,pp=4,mbs=1,stage=0".
        sequence: tokens; None: the model's, 8192 at most.
        global_batch: sequences of a step; None: four million tokens.
        precision: bf16, fp8, ...
        modules: what layers are made of: megatron (TransformerEngine), pytorch (not compiled); None:
            what the software is made of.
        software: what runs the job: megatron, torchtitan, deepspeed; any if none is named.
        constants: a file that `stweaver advise --fit` wrote; None: those of the modules.
        max_memory: GiB that a rank may reserve; None: the GPU's.
        fix: parameters that are given, such as {"tp": 8}.
        objectives: time, memory, gpus, cost, headroom; the first three if none is named.
        choices: so many at most.
        exhaustive: look at all configurations, however many, for the fastest that fits.

    Returns:
        The choices; none where nothing fits.

    Raises:
        Error: something was asked for that makes no sense; one line says what.
    """
    _require_lists(calibrate=calibrate, software=software, objectives=objectives)
    arguments = ["--gpus", str(gpus), "--gpu", gpu, "--precision", precision, "--choices", str(choices)]
    arguments += ["--link", link, "--allocator", allocator]
    if calibrate:
        arguments += ["--calibrate", *calibrate]
    optional = {"--nodes": nodes, "--network": network, "--constants": constants, "--modules": modules}
    optional |= {"--sequence": sequence, "--global-batch": global_batch, "--max-memory": max_memory}
    for name, value in optional.items():
        if value is not None:
            arguments += [name, str(value)]
    for name, fixed in (fix or {}).items():
        arguments += ["--fix", f"{name}={int(fixed) if isinstance(fixed, bool) else fixed}"]
    if software:
        arguments += ["--software", ",".join(software)]
    if objectives:
        arguments += ["--objective", ",".join(objectives)]
    if exhaustive:
        arguments.append("--exhaustive")
    return _advice(_answer([*arguments, "--", str(model)]))


def _require_lists(**given: Sequence[str]) -> None:
    """Refuse a string: it is a sequence, too, of letters, which nobody means."""
    for name, value in given.items():
        if isinstance(value, str):
            raise Error(f"{name}={value!r}: a list of names, such as [{value!r}]")


def _answer(arguments: list[str]) -> dict[str, Any]:
    command: list[str | Path] = [layout.find_command(), "advise", "--json", *arguments]
    result = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
    if result.returncode not in (0, _NOTHING_FITS):
        said = result.stderr.strip().removeprefix("stweaver: ")
        raise Error(said or f"{command[0]} advise ended with status {result.returncode}")
    answer: dict[str, Any] = json.loads(result.stdout)
    return answer


def _advice(answer: dict[str, Any]) -> Advice:
    return Advice(
        choices=tuple(_choice(choice) for choice in answer["choices"]),
        front=answer["front"],
        evaluations=answer["evaluations"],
        exhaustive=answer["exhaustive"],
        seconds=answer["seconds"],
    )


def _choice(choice: dict[str, Any]) -> Choice:
    settings = {"megatron": None, "torchtitan": None, "deepspeed": None}
    known = {field.name: (settings | choice)[field.name] for field in fields(Choice)}
    return Choice(**known | {"configuration": Configuration(**choice["configuration"])})
