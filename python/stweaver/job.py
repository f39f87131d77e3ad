"""Which job this process is, and the names of its files: a plan is found again only by the same job."""

import hashlib
import importlib.util
import json
import os
import re
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

from stweaver import gpu, pytorch
from stweaver.statistics import Simulated
from stweaver.version import __version__

# The first of each that is set says it: torchrun, Lightning, Slurm, Open MPI, MPICH. Lightning's own launcher
# sets no rank, but these two; where there is one host the local rank is all that need be said.
_RANK: tuple[tuple[str, ...], ...] = (
    ("RANK",),
    ("NODE_RANK", "LOCAL_RANK"),
    ("SLURM_PROCID",),
    ("OMPI_COMM_WORLD_RANK",),
    ("PMI_RANK",),
    ("LOCAL_RANK",),
)
_WORLD_SIZE = ("WORLD_SIZE", "SLURM_NTASKS", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE")
# What else of the environment changes what a job asks for.
_RELEVANT = (
    "LOCAL_WORLD_SIZE",
    "CUBLAS_WORKSPACE_CONFIG",
    "CUBLASLT_WORKSPACE_SIZE",
    "TORCH_NCCL_AVOID_RECORD_STREAMS",
)
# Larger files among the arguments are data, not settings.
_MOST_BYTES = 1 << 20
# These are read by a job: one that was there and changes while it runs was edited.
_SETTINGS = {".py", ".yaml", ".yml", ".toml", ".ini", ".cfg", ".conf", ".json"}
# In bytes: names of plans and of their drafts begin with it, and a file's may have 255.
_LONGEST_NAME = 128
_LAUNCHERS = {
    *("torchrun", "accelerate", "accelerate-launch", "deepspeed"),
    *("torch.distributed.run", "torch.distributed.launch", "accelerate.commands.launch"),
    "deepspeed.launcher.launch",
}


class Beginning(NamedTuple):
    """The folder in which a process began, and the arguments that named a file or a folder then."""

    folder: Path
    there: frozenset[str]


@dataclass(frozen=True)
class Job:
    """`facts` are what the fingerprint is made of; `outputs` are arguments that name what it writes.

    `words` are its arguments as they are, `missing` those that named nothing when it began. `folder` is the
    one that it began in: it may go to another. `settings` are those of PyTorch's allocator, which say nothing
    of the plan, but of what PyTorch alone would have reserved.
    """

    name: str
    rank: str | None
    facts: Mapping[str, Any]
    words: Sequence[str]
    missing: frozenset[str]
    outputs: frozenset[str] = frozenset()
    folder: Path = field(default_factory=Path.cwd)
    settings: str = ""

    @property
    def fingerprint(self) -> str:
        """The same for two runs only if all facts are."""
        return hashlib.sha256(json.dumps(self.facts, sort_keys=True).encode()).hexdigest()[:16]

    def plan_path(self, folder: Path) -> Path:
        """Where the plan of this job and rank is kept; "{device}" in it stands for the device's number."""
        return folder / f"{self.label}-{self.fingerprint}-device{{device}}.plan"

    def facts_path(self, folder: Path) -> Path:
        """Where it is said what the plan's fingerprint was made of."""
        return folder / f"{self.label}-{self.fingerprint}.json"

    def trace_path(self, path: Path) -> Path:
        """One for each rank: job.trace becomes job-rank0.trace."""
        return path if self.rank is None else path.with_name(f"{path.stem}-rank{self.rank}{path.suffix}")

    def begin(self, folder: Path) -> None:
        """Write, unless it is known, what the fingerprint is made of, and what its end would have to know."""
        if not self.facts_path(folder).is_file():
            begun = {"missing": sorted(self.missing), "folder": str(self.folder)}
            _write(self.facts_path(folder), {**self.facts, **begun})

    def killed(self, folder: Path) -> Iterator["Job"]:
        """Return those runs of this program and rank that began and did not end, or have not yet."""
        for path in sorted(folder.glob(f"{self.label}-*.json")):
            facts = _read_facts(path)
            words, missing = _words(facts, "command"), frozenset(_words(facts, "missing"))
            where = facts.pop("folder", None)
            if facts.pop("missing", None) is None or not isinstance(where, str):
                continue
            began = replace(self, facts=facts, words=words, missing=missing, folder=Path(where))
            if began.facts_path(folder) == path:
                yield began

    def keep_facts(self, folder: Path, simulated: Mapping[int, Simulated]) -> None:
        """Write what the fingerprint was made of, and what PyTorch would have reserved, by device.

        What is kept of other devices stays. Where all is known already, nothing is written: a folder may be
        only to be read.
        """
        known = self.simulated(folder) | dict(simulated)
        kept = {str(device): asdict(what) for device, what in known.items()}
        of_simulation = {"settings": self.settings, "simulated": kept}
        document = {**self.facts, "outputs": sorted(self.outputs), **of_simulation}
        if _read_facts(self.facts_path(folder)) != document:
            _write(self.facts_path(folder), document)

    def simulated(self, folder: Path) -> dict[int, Simulated]:
        """Return what keep_facts() kept, in an earlier run of the job with the same settings of PyTorch."""
        try:
            facts = _read_facts(self.facts_path(folder))
            kept = facts["simulated"] if facts["settings"] == self.settings else {}
            return {int(device): Simulated(**what) for device, what in kept.items()}
        except (KeyError, ValueError, TypeError, AttributeError):
            return {}

    def recognized(self, folder: Path) -> "Job":
        """Leave out what an earlier run of this job wrote, if there was one: it says nothing of the job.

        Where that wrote, this one may name the same again, or what is not there yet.
        """
        for path in sorted(folder.glob(f"{self.label}-*.json")):
            theirs = _read_facts(path)
            same = self.without([*_words(theirs, "outputs"), *self._to_be_made(_words(theirs, "command"))])
            if same.facts_path(folder) == path:
                return same
        return self

    def _to_be_made(self, command: Sequence[str]) -> Iterable[str]:
        pairs = zip(self.words, command, strict=False)
        return (mine for mine, theirs in pairs if mine in self.missing and theirs == _without_value(mine))

    def without(self, outputs: Iterable[str]) -> "Job":
        """Leave out these arguments, whatever they name."""
        known = self.outputs.union(outputs)
        files = {word: digest for word, digest in self.facts["files"].items() if word not in known}
        command = [_without_value(word) if word in known else word for word in self.words]
        return replace(self, facts={**self.facts, "files": files, "command": command}, outputs=known)

    def written(self) -> set[str]:
        """Return the arguments that name what this run made, or files that it changed: not its program."""
        return {word for word in self.words if word != _program(self.words) and self._has_written(word)}

    def _has_written(self, word: str) -> bool:
        if word in self.missing and _is_there(word, self.folder):
            return True
        before, now = self.facts["files"].get(word), _digest(word, self.folder)
        if now is None or now == before:
            return False
        return before is None or Path(word).suffix not in _SETTINGS

    @property
    def label(self) -> str:
        """Name the program and the rank: what the names of all its plans begin with."""
        return self.name if self.rank is None else f"{self.name}-rank{self.rank}"


def _words(facts: Mapping[str, Any], name: str) -> list[str]:
    """Of what keep_facts() wrote; none from a file that is not so."""
    words = facts.get(name)
    return [word for word in words if isinstance(word, str)] if isinstance(words, list) else []


def _without_value(word: str) -> str:
    return word[: word.find("=") + 1] + "{output}"


def _write(path: Path, document: Mapping[str, Any]) -> None:
    """All or nothing: other processes may read it meanwhile. Other users may not: there may be secrets."""
    file, name = tempfile.mkstemp(dir=path.parent, prefix=f"{path.name}.", suffix=".part")
    draft = Path(name)
    try:
        with os.fdopen(file, "w") as stream:
            stream.write(json.dumps(document, indent=2) + "\n")
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)


def _read_facts(path: Path) -> dict[str, Any]:
    """Nothing from a file that has none."""
    try:
        document = json.loads(path.read_text())
    except (OSError, ValueError):
        return {}
    return document if isinstance(document, dict) else {}


def describe(
    torch_version: str, kind: str, command: Sequence[str] | None = None, began: Beginning | None = None
) -> Job:
    """Describe this process. `command` is its command line without the interpreter; None: as it is.

    `began`: None where it begins now.
    """
    command = sys.orig_argv[1:] if command is None else command
    folder = Path.cwd() if began is None else began.folder
    missing = frozenset(
        word for word in command if not (_is_there(word, folder) if began is None else word in began.there)
    )
    files = {word: digest for word in command if word not in missing and (digest := _digest(word, folder))}
    program = _program(command)
    if program and (digest := _digest_of_program(command, folder)):
        files[program] = digest
    facts = {
        "command": list(command),
        "files": files,
        "world_size": _first(_WORLD_SIZE),
        "rank": _numbers_of_rank(),
        "environment": {name: os.environ[name] for name in _RELEVANT if name in os.environ},
        "torch": torch_version,
        "stweaver": __version__,
        "devices": _devices() if kind == "cuda" else ["cpu"],
    }
    settings = pytorch.allocator_settings()
    return Job(_name(command), rank(), facts, list(command), missing, folder=folder, settings=settings)


def rank() -> str | None:
    """Name the rank of this process: "3", or "0.3" by host and rank there; None for a job of just this."""
    return _numbers_of_rank() if (_first(_WORLD_SIZE) or 1) > 1 else None


def is_launcher() -> bool:
    """Whether this process only starts others that train: torchrun and its kind."""
    return _module(sys.orig_argv[1:]) in _LAUNCHERS or Path(sys.argv[0]).name in _LAUNCHERS


def is_program(command: Sequence[str] | None = None) -> bool:
    """Whether this process runs a file or a module: what comes from `-c` or standard input is no such thing.

    A command line tells little of those: of a script on standard input nothing.
    """
    how, what = _what_runs(sys.orig_argv[1:] if command is None else command)
    return how == "-m" or (how == "" and what != "-")


def is_helper() -> bool:
    """Whether multiprocessing started this process: whose part of the job it does is not known."""
    multiprocessing = sys.modules.get("multiprocessing.process")
    is_forked = multiprocessing is not None and multiprocessing.parent_process() is not None
    return is_forked or _runs_multiprocessing()


def is_forked_helper() -> bool:
    """Whether it did so by fork or forkserver: such a process ends without what atexit was told."""
    return is_helper() and not _runs_multiprocessing("spawn ")


def is_forkserver() -> bool:
    """Whether this process is multiprocessing's server that forks others, or one of those."""
    return _runs_multiprocessing("forkserver ")


def _runs_multiprocessing(module: str = "") -> bool:
    """Whether Python was started with a program of multiprocessing's, or of this module of it."""
    return any(word.startswith(f"from multiprocessing.{module}") for word in sys.orig_argv)


def _what_runs(command: Sequence[str]) -> tuple[str, str]:
    """Read Python's command line: "-m" and a module, "-c" and a text, or "" and a script ("-": stdin)."""
    words = iter(command)
    for word in words:
        if word == "-" or not word.startswith("-"):
            return "", word
        if word == "--check-hash-based-pycs":
            next(words, "")
        letters = "" if word.startswith("--") else word[1:]
        taker = re.search("[cmWX]", letters)  # of the rest of the word, or else of the next one
        if taker:
            value = letters[taker.end() :] or next(words, "")
            if taker[0] in "cm":
                return f"-{taker[0]}", value
    return "", "-"


def _module(command: Sequence[str]) -> str:
    """Return what `python -m` names; empty where Python was not called so."""
    how, what = _what_runs(command)
    return what if how == "-m" else ""


def _program(command: Sequence[str]) -> str:
    """Return the script or module; empty where Python was given none."""
    how, what = _what_runs(command)
    return "" if how == "-c" or what == "-" else what


def _digest_of_program(command: Sequence[str], folder: Path) -> str | None:
    """Of what Python runs, whatever its size: a file, or the `__main__` of a folder or a package."""
    module = _module(command)
    path = _origin(module) if module else folder / _program(command)
    if path is None:
        return None
    archives = path.parents if module else ()  # a module may lie in one
    file = next(filter(Path.is_file, (path, path / "__main__.py", *archives)), path)
    return _digest_of_file(file, sys.maxsize)


def _origin(name: str) -> Path | None:
    """Find a module; of a package its `__main__`. Python imports what it lies in anyway."""
    try:
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.submodule_search_locations is not None:
            spec = importlib.util.find_spec(f"{name}.__main__")
    except (ImportError, AttributeError, ValueError):  # there is none, or no spec of it
        return None
    return None if spec is None or spec.origin is None else Path(spec.origin)


def _first(names: Sequence[str]) -> int | None:
    return next((number for number in map(_number, names) if number is not None), None)


def _numbers_of_rank() -> str | None:
    said = ([_number(name) for name in names] for names in _RANK)
    return next((".".join(map(str, numbers)) for numbers in said if None not in numbers), None)


def _number(name: str) -> int | None:
    value = os.environ.get(name, "")
    return int(value) if value.isdecimal() else None


def _devices() -> list[Any]:
    """Each kind of GPU once: which of several equal ones a job runs on does not matter."""
    kinds = sorted(set(gpu.find()))
    visible = os.environ.get("CUDA_VISIBLE_DEVICES", "")
    if len(kinds) > 1 or visible.startswith("MIG"):
        return [*kinds, visible]
    return [*kinds]


def _digest(word: str, folder: Path) -> str | None:
    """Of the file that an argument names, by itself or behind a "=": the script, its settings."""
    return next(filter(None, (_digest_of_file(path) for path in _paths(word, folder))), None)


def _is_there(word: str, folder: Path) -> bool:
    """Whether an argument names a file or a folder."""
    try:
        return any(path.exists() for path in _paths(word, folder))
    except (OSError, ValueError):  # no name of a file at all
        return False


def _paths(word: str, folder: Path) -> list[Path]:
    return [folder / name for name in (word, word.partition("=")[2]) if name]


def _digest_of_file(path: Path, most: int = _MOST_BYTES) -> str | None:
    digest = hashlib.sha256()
    try:
        if not path.is_file() or path.stat().st_size > most:
            return None
        with path.open("rb") as file:
            while part := file.read(_MOST_BYTES):
                digest.update(part)
    except (OSError, ValueError):  # no file of ours, or no name of a file at all
        return None
    return digest.hexdigest()


def _name(command: Sequence[str]) -> str:
    """Make a word for people, from the script or module."""
    script = next((word for word in command if word.endswith(".py")), None)
    if script is None:
        script = _module(command).rpartition(".")[2]
    name = re.sub(r"[^\w.-]", "_", Path(script or "job").stem) or "job"
    return os.fsencode(name)[:_LONGEST_NAME].decode(errors="ignore")
