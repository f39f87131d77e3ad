"""The claim: more tokens per second under a memory limit, found by `stweaver advise`, confirmed by a GPU.

    python3 bench/gpu/advised.py --out build/gpu --dry          # predictions alone; needs no GPU
    python3 bench/gpu/advised.py --out build/gpu                # makes use of those, where they are there
    python -m nullcuda run --gpu h200 --values -- python bench/gpu/advised.py --out build/gpu --untimed

For each job and limit `advise` says which configuration is the fastest that fits under PyTorch's default,
under its expandable segments and under STWeaver. What may vary is what one GPU can vary: the micro-batch and
what is recomputed: nothing or every layer ("all"), or any number of layers ("some"; "any" where that is no
better). The batch is fixed. Then the limit is taken off the device, behind every allocator's back, and each
allocator trains its own configuration, and that of STWeaver as well. What runs out of memory is followed by
the next best that is predicted to need less, twice at most. Cases whose configurations differ come first, by
their gain; the fullest of the others is among them, as a check.
"""

import argparse
import importlib
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import workloads
from common import forked, ran_out, stweaver
from train import Run, train
from workloads.pipeline import PEERS, Job

from report import GIB, table

COMMAND = Path(__file__).resolve().parents[2] / "build/release/stweaver"
MODELS = ("gpt2", "llama_1b", "llama_3b", "moe_whole")
LIMITS = (24, 32, 40, 48, 80)  # GiB, as in an RTX 4090, V100, A100, L40S and H100
MARGIN = 0.5  # GiB of the limit for what CUDA loads beside the allocators: kernels, their stacks
FREEDOMS = ("all", "some")
# Of advise and its answer, and of train.py.
RESERVED = {"default": "reserved_native", "expandable": "reserved_expandable", "stweaver": "reserved"}
TRAINED = {"default": "default", "expandable": "expandable", "stweaver": "online"}
OTHERS = ("default", "expandable")
CANDIDATES = 3
LESS = 0.01  # GiB that the next candidate is to need less
STEPS = {"default": 6, "expandable": 6, "stweaver": 9}  # STWeaver has a plan after four
MEASURED = 4  # of them, the last
LONGEST = 40.0  # seconds for one run
ENOUGH = 40.0  # seconds for a case


@dataclass(frozen=True)
class Choice:
    """A configuration, and what is predicted of it: GiB, tokens per second of one GPU."""

    micro_batch: int
    recompute: int  # layers
    tokens_per_second: float
    requested: float
    reserved: dict[str, float]

    @property
    def key(self) -> tuple[int, int]:
        """What tells it from others of the same job."""
        return self.micro_batch, self.recompute

    def __str__(self) -> str:
        """Name it in a table."""
        return f"{self.micro_batch} x {'none' if not self.recompute else self.recompute}"


@dataclass(frozen=True)
class Case:
    """A job under a limit, and what to try for each allocator, the fastest first."""

    job: str
    limit: int  # GiB
    freedom: str
    candidates: dict[str, list[Choice]]

    def best(self, allocator: str) -> Choice | None:
        """Return what to try first."""
        return next(iter(self.candidates[allocator]), None)

    def gain(self, other: str) -> float:
        """How much faster STWeaver's best is predicted to be; without bound where the other has none."""
        ours, theirs = self.best("stweaver"), self.best(other)
        if ours is None:
            return 0
        return ours.tokens_per_second / theirs.tokens_per_second - 1 if theirs else float("inf")


# ---- predictions ----


def job_of(name: str) -> Job:
    return workloads.job_of(name, workloads.Setting())


def batch_of(job: Job) -> int:
    """Sequences of a step."""
    return job.micro_batch * job.micro_batches


def write_model(name: str, folder: Path) -> Path:
    """Write the config.json that tells advise of the job's model."""
    job = job_of(name)
    shape = job.shape
    config: dict[str, Any] = {
        "model_type": "llama" if shape.gated else "gpt2",
        "num_hidden_layers": job.layers,
        "hidden_size": shape.hidden,
        "intermediate_size": shape.feed_forward,
        "num_attention_heads": shape.heads,
        "vocab_size": shape.vocabulary,
        "tie_word_embeddings": False,
    }
    if shape.experts:
        config |= {"num_experts": shape.experts, "num_experts_per_tok": shape.experts_per_token}
        config |= {"moe_intermediate_size": shape.feed_forward}
        config |= {"shared_expert_intermediate_size": shape.shared_feed_forward}
    path = folder / f"{name}.config.json"
    path.write_text(json.dumps(config, indent=1) + "\n")
    return path


@dataclass
class Advisor:
    """Asks `stweaver advise` for the jobs, each as one rank of as many as share its optimizer."""

    out: Path
    answers: dict[tuple[object, ...], Choice | None] = field(default_factory=dict)

    def candidates(self, name: str, limit: float, allocator: str, freedom: str) -> list[Choice]:
        """Return the fastest that fits, then the fastest that is predicted to need less, and so on."""
        found: list[Choice] = []
        memory = limit - MARGIN
        while len(found) < CANDIDATES and (choice := self.best(name, memory, allocator, freedom)):
            found.append(choice)
            memory = choice.reserved[allocator] - LESS
        return found

    def best(self, name: str, memory: float, allocator: str, freedom: str) -> Choice | None:
        """Return the fastest that fits, with nothing recomputed or something."""
        some = "recompute=full", *([f"recompute_layers={job_of(name).layers}"] if freedom == "all" else [])
        choices = [self.ask(name, memory, allocator, *fixed) for fixed in (("recompute=none",), some)]
        return max(filter(None, choices), key=lambda choice: choice.tokens_per_second, default=None)

    def ask(self, name: str, memory: float, allocator: str, *fixed: str) -> Choice | None:
        """Ask the command, once."""
        key = name, memory, allocator, *fixed
        if key not in self.answers:
            self.answers[key] = self._ask(name, memory, allocator, *fixed)
        return self.answers[key]

    def _ask(self, name: str, memory: float, allocator: str, *fixed: str) -> Choice | None:
        job = job_of(name)
        command = [str(COMMAND), "advise", str(write_model(name, self.out)), "--json", "--exhaustive"]
        command += ["--gpus", str(PEERS), "--gpu", "h200", "--modules", "pytorch", "--choices", "1"]
        command += ["--sequence", str(job.sequence), "--global-batch", str(PEERS * batch_of(job))]
        command += ["--max-memory", f"{memory:.3f}", "--allocator", allocator]
        alone = f"gpus={PEERS}", "tp=1", "pp=1", "cp=1", "ep=1", "zero=1", "offload=0"
        for setting in (*alone, *fixed):
            command += ["--fix", setting]
        done = subprocess.run(command, capture_output=True, text=True)
        if not done.stdout:
            raise SystemExit(done.stderr.strip())
        choices = json.loads(done.stdout)["choices"]
        return choice_of(choices[0]) if choices else None


def choice_of(answer: dict[str, Any]) -> Choice:
    how = answer["configuration"]
    return Choice(
        how["micro_batch"],
        how["recompute_layers"],
        answer["tokens_per_second"] / how["gpus"],
        answer["requested"] / GIB,
        {allocator: answer[column] / GIB for allocator, column in RESERVED.items()},
    )


def predict(out: Path) -> list[Case]:
    advisor = Advisor(out)
    cases = []
    for name, limit in product(MODELS, LIMITS):
        coarse, fine = (predict_case(advisor, name, limit, freedom) for freedom in FREEDOMS)
        cases += [replace(fine, freedom="any")] if same_bests(coarse, fine) else [coarse, fine]
    return cases


def predict_case(advisor: Advisor, name: str, limit: int, freedom: str) -> Case:
    found = {allocator: advisor.candidates(name, limit, allocator, freedom) for allocator in RESERVED}
    return Case(name, limit, freedom, found)


def same_bests(one: Case, other: Case) -> bool:
    return all(one.best(allocator) == other.best(allocator) for allocator in RESERVED)


def read_cases(path: Path) -> list[Case]:
    cases = []
    for case in json.loads(path.read_text()):
        found = {name: [Choice(**choice) for choice in some] for name, some in case["candidates"].items()}
        cases.append(Case(**case | {"candidates": found}))
    return cases


def prediction_table(cases: list[Case]) -> str:
    """Show for each allocator the configuration, what it reserves, and tokens per second."""
    rows = []
    for case in cases:
        row = [case.job, str(case.limit), case.freedom]
        for allocator in RESERVED:
            choice = case.best(allocator)
            row += (
                [str(choice), f"{choice.reserved[allocator]:.2f}", f"{choice.tokens_per_second:.0f}"]
                if choice
                else ["none fits", "", ""]
            )
        rows.append([*row, *(percent(case.gain(other)) for other in OTHERS)])
    head = ["job", "limit", "layers"]
    for allocator in RESERVED:
        head += [allocator, "GiB", "tokens/s"]
    return table([*head, *(f"over {other}" for other in OTHERS)], rows)


def percent(gain: float) -> str:
    return "trains alone" if gain == float("inf") else f"{gain:+.1%}"


# ---- runs ----


@dataclass(frozen=True)
class Measured:
    """One run."""

    error: str
    reserved: float = 0  # GiB
    flushes: int = 0  # of PyTorch's cache, because the driver had nothing left
    tokens_per_second: float = 0

    @property
    def outcome(self) -> str:
        """Say how it went, in a table."""
        if self.error:
            return self.error
        return f"{self.flushes} flushes" if self.flushes else "ok"


@dataclass(frozen=True)
class Attempt:
    """One row of the result."""

    case: Case
    allocator: str
    choice: Choice
    measured: Measured
    borrowed: bool = False  # STWeaver's configuration under another allocator


@dataclass
class Trainer:
    """Trains configurations, each once under each allocator and limit."""

    out: Path
    deadline: float
    done: dict[tuple[object, ...], Measured] = field(default_factory=dict)

    @property
    def left(self) -> float:
        """Seconds."""
        return self.deadline - time.monotonic()

    def attempts(self, case: Case) -> Iterator[Attempt]:
        """Train each allocator's configurations until one trains, then STWeaver's under the others."""
        tried: dict[str, list[Choice]] = {}
        for allocator in reversed(RESERVED):  # STWeaver first
            tried[allocator] = []
            for choice in case.candidates[allocator]:
                tried[allocator].append(choice)
                measured = self.train(case, allocator, choice)
                yield Attempt(case, allocator, choice, measured)
                if not ran_out(measured.error):
                    break
        for other in OTHERS if tried["stweaver"] else ():
            ours = tried["stweaver"][-1]
            if ours.key not in [choice.key for choice in tried[other]]:
                yield Attempt(case, other, ours, self.train(case, other, ours), borrowed=True)

    def train(self, case: Case, allocator: str, choice: Choice) -> Measured:
        """Train it in a process of its own, unless that was done."""
        key = case.job, case.limit, allocator, *choice.key
        if key not in self.done:
            began = time.monotonic()
            self.done[key] = self._train(case, allocator, choice)
            took = f"{time.monotonic() - began:.1f} s"
            print(f"{case.job} {case.limit} GiB {allocator} {choice}: {self.done[key]}, {took}", flush=True)
        return self.done[key]

    def _train(self, case: Case, allocator: str, choice: Choice) -> Measured:
        job = job_of(case.job)
        name = f"advised.{case.job}.{case.limit}.{allocator}.{choice.micro_batch}.{choice.recompute}"
        run = Run(
            workload=case.job,
            allocator=TRAINED[allocator],
            steps=STEPS[allocator],
            out=str(self.out / f"{name}.json"),
            limit=case.limit,
            deterministic=False,
            fresh=True,
            micro_batch=choice.micro_batch,
            micro_batches=batch_of(job) // choice.micro_batch,
            recompute=choice.recompute,
        )
        Path(run.out).unlink(missing_ok=True)
        error = forked(partial(train, run), self.out / f"{name}.log", max(1.0, min(LONGEST, self.left)))
        if not Path(run.out).exists():
            return Measured(error[:100])
        return measured_of(job, json.loads(Path(run.out).read_text()), error)


def measured_of(job: Job, result: dict[str, Any], error: str) -> Measured:
    if error:
        reason = result.get("error", error)
        error = "out of memory" if ran_out(reason) else reason[:100]
    if "whole" not in result:
        return Measured(error)
    step = statistics.median(result["seconds"][-MEASURED:])
    rate = 0 if error else batch_of(job) * job.sequence / step
    return Measured(error, result["whole"]["reserved"] / GIB, result["retries"], rate)


def in_order(cases: list[Case]) -> list[Case]:
    """Put first what tells most: where configurations differ, then the fullest where they are the same."""

    def fullness(case: Case) -> float:
        best = case.best("default")
        return best.reserved["default"] / case.limit if best else 0

    differ = [
        case for case in cases if case.best("stweaver") and any(case.gain(other) > 0 for other in OTHERS)
    ]
    same = [case for case in cases if case.best("stweaver") and case not in differ]
    differ.sort(key=lambda case: (-min(case.gain(other) for other in OTHERS), -case.gain("default")))
    check = sorted(same, key=fullness)[-1:]
    return [*differ[:3], *check, *differ[3:]]


# ---- results ----


def run_table(attempts: list[Attempt], *, timed: bool) -> str:
    rows = []
    for attempt in attempts:
        case, choice, measured = attempt.case, attempt.choice, attempt.measured
        allocator = attempt.allocator + (", STWeaver's" if attempt.borrowed else "")
        rows.append([case.job, case.limit, case.freedom, allocator, choice])
        rows[-1] += [f"{choice.reserved[attempt.allocator]:.2f}", f"{measured.reserved:.2f}"]
        rows[-1] += [f"{choice.tokens_per_second:.0f}", f"{measured.tokens_per_second:.0f}" if timed else ""]
        rows[-1].append(measured.outcome)
    head = ["job", "limit", "layers", "allocator", "configuration", "predicted GiB", "reserved GiB"]
    return table([*head, "predicted tokens/s", "tokens/s", ""], rows)


def failed(attempts: list[Attempt]) -> bool:
    """Say whether a run failed in another way than by lack of memory."""
    return any(one.measured.error and not ran_out(one.measured.error) for one in attempts)


def fastest(attempts: list[Attempt], allocator: str, *, timed: bool) -> float | None:
    """Return the best tokens per second, predicted where times mean nothing; None where a run failed."""
    mine = [one for one in attempts if one.allocator == allocator]
    if failed(mine):
        return None
    trained = [one for one in mine if not one.measured.error]
    rates = [one.measured.tokens_per_second if timed else one.choice.tokens_per_second for one in trained]
    return max(rates, default=0)


def gain_table(attempts: list[Attempt], *, timed: bool) -> str:
    """Show what each allocator trained at best, whoever's configuration that was, and STWeaver's gain."""

    def rate_text(rate: float | None) -> str:
        return "failed" if rate is None else f"{rate:.0f}" if rate else "does not train"

    def gain_text(ours: float | None, theirs: float | None) -> str:
        if not ours or theirs is None:
            return ""
        return percent(ours / theirs - 1 if theirs else float("inf"))

    rows = []
    for case in dict.fromkeys((one.case.job, one.case.limit, one.case.freedom) for one in attempts):
        mine = [one for one in attempts if (one.case.job, one.case.limit, one.case.freedom) == case]
        rates = {name: fastest(mine, name, timed=timed) for name in RESERVED}
        gains = [gain_text(rates["stweaver"], rates[other]) for other in OTHERS]
        rows.append([*map(str, case), *map(rate_text, rates.values()), *gains])
    head = ["job", "limit", "layers", *(f"{name} tokens/s" for name in RESERVED)]
    return table([*head, *(f"over {other}" for other in OTHERS)], rows)


def write_results(attempts: list[Attempt], out: Path, *, timed: bool) -> str:
    text = f"{run_table(attempts, timed=timed)}\n\n{gain_table(attempts, timed=timed)}\n"
    (out / "advised.md").write_text(text)
    rows = [
        {"job": one.case.job, "limit": one.case.limit, "layers": one.case.freedom}
        | {"allocator": one.allocator, "borrowed": one.borrowed, "choice": asdict(one.choice)}
        | {"measured": asdict(one.measured)}
        for one in attempts
    ]
    (out / "advised.json").write_text(json.dumps(rows, indent=1) + "\n")
    return text


def build_adapter() -> None:
    """Compile STWeaver's adapter, if there is none: not in the time of a run."""
    stweaver()
    adapter = importlib.import_module("stweaver.adapter")
    if adapter.choose("cuda").path is None:
        adapter.build("cuda")


def train_all(cases: list[Case], trainer: Trainer, *, timed: bool) -> list[Attempt]:
    attempts: list[Attempt] = []
    for case in in_order(cases):
        if trainer.left < ENOUGH:
            print(f"no time left for {case.job} under {case.limit} GiB, {case.freedom}", flush=True)
            continue
        attempts += trainer.attempts(case)
        write_results(attempts, trainer.out, timed=timed)
    return attempts


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--out", type=Path, required=True, help="folder for predictions, results and logs")
    parser.add_argument("--dry", action="store_true", help="predict anew, and train nothing")
    parser.add_argument("--untimed", action="store_true", help="times mean nothing here, as on null CUDA")
    parser.add_argument("--seconds", type=float, default=280, help="time for all runs")
    return parser.parse_args()


def main() -> int:
    options = arguments()
    options.out.mkdir(parents=True, exist_ok=True)
    kept = options.out / "advised.predictions.json"
    if options.dry or not kept.exists():  # what was predicted before the run is what is confirmed
        kept.write_text(json.dumps([asdict(case) for case in predict(options.out)], indent=1) + "\n")
    cases = read_cases(kept)
    print(prediction_table(cases), flush=True)
    if options.dry:
        return 0
    timed = not options.untimed
    if failure := forked(build_adapter, options.out / "advised.adapter.log", 120):
        print(f"STWeaver's adapter: {failure}", file=sys.stderr)
        return 1
    trainer = Trainer(options.out, time.monotonic() + options.seconds)
    attempts = train_all(cases, trainer, timed=timed)
    print("\n" + write_results(attempts, options.out, timed=timed))
    return int(failed(attempts))


if __name__ == "__main__":
    sys.exit(main())
