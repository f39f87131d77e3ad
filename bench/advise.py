"""How well the models of `advise` predict what they were not fitted on.

python3 bench/advise.py time FOLDER, which holds tables of measured steps: vtrain_single.csv,
vtrain_multi.csv, bridge.csv, torchtitan.csv. Constants are fitted on one part of each after another, named
below, and judged on the rest. Then what no model could do better, and which ranks a mean error allows.

python3 bench/advise.py sets FOLDER fits the built-in constants, src/advise/sets, on all rows of these tables.

Tables that nothing was fitted on: bench/unseen.py.

python3 bench/advise.py memory FOLDER TRACES: peaks of memory in FOLDER/megatron_ci.csv,
FOLDER/torchtitan.csv and FOLDER/memory_tables.csv, and those of the jobs in TRACES/manifest.json. Nothing of
the memory model is fitted.
"""

import argparse
import csv
import json
import math
import random
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
COMMAND = ROOT / "build/release/stweaver"
FOLDER_OF_SETS = ROOT / "src/advise/sets"
Row = dict[str, str]
Prediction = dict[str, Any]
Part = Callable[[int, Row], bool]

LAYOUT = ["model", "task", "gpu", "precision", "gpus", "gbs", "mbs", "seq"]
LAYOUT += ["fsdp", "tp", "pp", "cp", "vp", "ep"]
SAME = {"FP8-CS": "FP8", "FP8-MX": "MXFP8", "": "0"}


def every_second_configuration(rest: int) -> Part:
    """Keep the measurements of one configuration in several releases in one part."""
    seen: dict[tuple[str, ...], int] = {}

    def chosen(_: int, row: Row) -> bool:
        key = tuple(SAME.get(row[column], row[column]) for column in LAYOUT)
        return seen.setdefault(key, len(seen)) % 2 == rest

    return chosen


def layers(*some: str) -> Part:
    """Take the models of these depths."""
    return lambda _, row: row["layers"] in some


def every(step: int, *rests: int) -> Part:
    """Take rows by their number."""
    return lambda number, _: number % step in rests


# What constants are fitted on; the rest is what they are judged on.
PARTS: dict[str, list[Part]] = {
    "vtrain_single": [layers("12", "20"), layers("16", "24")],
    "vtrain_multi": [every(5, rest) for rest in range(5)],
    "bridge": [every_second_configuration(0), every_second_configuration(1)],
    "torchtitan": [every(4, 0, 3), every(4, 1, 2)],
}


# What recipes of Megatron-Bridge recompute, as far as it counts (its gpt_oss_workload_base_configs.py and
# perf_recipes; bridge.csv has no such column): layernorm and moe_act, and five whole layers.
RECOMPUTED: dict[tuple[str, str, str], tuple[str, str]] = {
    ("gpt_oss_120b", "H100", "BF16"): ("selective", "0"),
    ("gpt_oss_120b", "B200", "BF16"): ("selective", "0"),
    ("gpt_oss_120b", "GB200", "BF16"): ("selective", "0"),
    ("llama3_8b", "H100", "FP8"): ("full", "5"),
}


def rows_of(table: Path) -> list[Row]:
    """Read a table, with what its recipes recompute."""
    with table.open(newline="") as file:
        rows = list(csv.DictReader(file))
    if table.stem != "bridge":
        return rows
    for row in rows:
        recipe = row["model"], row["gpu"], SAME.get(row["precision"], row["precision"])
        recompute, layers = RECOMPUTED.get(recipe, ("none", "0"))
        row.setdefault("recompute", recompute)  # a table that tells it knows better
        row.setdefault("recompute_layers", layers)
    return rows


def split(table: Path, part: Part, folder: Path) -> tuple[Path, Path]:
    """Write the two parts of a table."""
    rows = rows_of(table)
    fitted = [part(number, row) for number, row in enumerate(rows)]
    paths = folder / f"{table.stem}_fit.csv", folder / f"{table.stem}_rest.csv"
    for path, keep in zip(paths, (True, False), strict=True):
        with path.open("w", newline="") as file:
            writer = csv.DictWriter(file, rows[0].keys(), lineterminator="\n")
            writer.writeheader()
            writer.writerows(row for row, mark in zip(rows, fitted, strict=True) if mark == keep)
    return paths


def advise(*arguments: str | Path) -> Any:  # noqa: ANN401  (a JSON document)
    """Run the command on a table and return its document; say which rows it left out, and why."""
    command = [COMMAND, "advise", *arguments, "--json"]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(done.stderr.strip())
    answer = json.loads(done.stdout)
    for reason in answer["left_out"]:
        print(f"{Path(arguments[1]).stem}: left out: {reason}", file=sys.stderr)
    return answer


def rows_predicted(answer: Prediction) -> str:
    """Count the rows of a table that were predicted; of how many, where some were left out."""
    return of_all(len(answer["predictions"]), len(answer["left_out"]))


def of_all(rows: int, left_out: int) -> str:
    return f"{rows} of {rows + left_out}" if left_out else str(rows)


# Rates that not every table has, or tells: guesses, as all of them below. Megatron's products reach what the
# GPU sustains and its operators what was measured (bench/gpu/products.py --streaming): with experts beside
# them, bridge tells neither from what experts send through memory.
UNSEEN = {"matrix": 1, "matrix_fp8_rowwise": 0.6, "matrix_fp4": 1, "streaming": 0.9}
# Where fits start: guesses that no row had a part in.
START: dict[str, dict[str, float]] = {
    "vtrain_single": {
        "matrix": 1,
        "streaming": 0.7,
        "layer": 0.002,
        "unfused_softmax": 0.3,
        "head": 0.002,
        "unaligned": 0.35,
        "step": 0.01,
    },
    "bridge": {
        "matrix_fp4": 1,
        "dispatch": 5,
        "layer": 0.002,
        "moe_layer": 0.003,
        "moe_layer_node": 0.008,
        "fused_experts": 0.9,
        "tensor_exposed": 1,
        "expert_exposed": 0.5,
        "data_exposed": 0.5,
        "ultra": 1.3,
        "step": 0.01,
    },
    "torchtitan": {
        "matrix": 1,
        "matrix_fp8_rowwise": 0.6,
        "attention": 0.6,
        "streaming": 0.7,
        "tensor_exposed": 1,
        "tensor_exposed_overlap": 0.5,
        "data_exposed": 0.5,
    },
}

MEASURES = {
    "mean error": "mean_absolute_error",
    "median": "median_absolute_error",
    "rank correlation": "rank_correlation",
    "loss": "loss",
    "worst loss": "worst_loss",
}


ERRORS = (0.01, 0.02, 0.05, 0.09)  # of models that know nothing else


def start_of(table: str, folder: Path) -> Path:
    """Write what a fit starts from: between nodes, what the first part of the single node said."""
    if table == "vtrain_multi":
        return folder / "vtrain_single.json"
    path = folder / f"{table}_start.json"
    path.write_text(json.dumps(UNSEEN | START[table] | {"layers": []}))
    return path


def only(table: str, *, plain: bool = False) -> list[str]:
    """Name what a table may change: between nodes, what the single node has not said.

    Factors of kinds of layers tell nothing of bridge, whose rows are of many releases of the software.
    """
    if table == "vtrain_multi":
        return ["--only", "several_nodes"]
    return ["--only", ",".join(START[table])] if plain or table == "bridge" else []


def fitted_on(fit: Path, table: str, constants: Path, *, plain: bool) -> Prediction:
    """Fit constants on rows."""
    start = start_of(table, constants.parent)
    fitted: Prediction = advise(
        "--fit", fit, "-o", constants, "--constants", start, *only(table, plain=plain)
    )
    return fitted


def judge_parts(table: Path, folder: Path, *, plain: bool) -> list[Prediction]:
    """Fit on each part and judge on its rest; the constants of the first stay in FOLDER."""
    answers = []
    for number, part in enumerate(PARTS[table.stem]):
        fit, rest = split(table, part, folder)
        constants = folder / f"{table.stem}{number or ''}.json"
        fitted = fitted_on(fit, table.stem, constants, plain=plain)
        answer: Prediction = advise("--predict", rest, "--constants", constants)
        answers.append(answer | {"fitted": fitted["rows"], "judged": rows_predicted(answer)})
    return answers


def cell(measure: str, answers: list[Prediction]) -> str:
    """Tell the mean over parts, and between what it lies."""
    key = MEASURES[measure]
    values = [answer[key] for answer in answers if answer[key] is not None]
    if not values:
        return "-"
    form = "{:.3f}" if key == "rank_correlation" else "{:.1%}"
    mean, least, most = (form.format(f(values)) for f in (statistics.mean, min, max))
    return f"{mean} ({least} to {most})"


def counts(key: str, answers: list[Prediction]) -> str:
    """Tell a number of each part, once where all have the same."""
    values = [str(answer[key]) for answer in answers]
    return values[0] if len(set(values)) == 1 else ", ".join(values)


def judge_time(data: Path, *, plain: bool) -> None:
    """Fit, judge, print a table, and what no model could do better."""
    heads = ["table", "fitted on", "judged on", *MEASURES, "models", "choices"]
    print(f"| {' | '.join(heads)} |\n|{'---|' * len(heads)}")
    with tempfile.TemporaryDirectory() as name:
        for table in PARTS:
            answers = judge_parts(data / f"{table}.csv", Path(name), plain=plain)
            cells = [table, counts("fitted", answers), counts("judged", answers)]
            cells += [cell(measure, answers) for measure in MEASURES]
            cells += [counts("ranked_models", answers), counts("choices", answers)]
            print(f"| {' | '.join(cells)} |")
        heads = ["table", "rows", "alike as jobs", "their mean error", "of all rows", "rank correlation"]
        print(f"\n| {' | '.join(heads)} |\n|{'---|' * len(heads)}")
        found = {table: advise("--predict", data / f"{table}.csv") for table in PARTS}
        rows = {table: answer["predictions"] for table, answer in found.items()}
        for table, answer in found.items():
            print(f"| {table} | {rows_predicted(answer)} | {floor(rows[table])} |")
        print(
            f"\n| table | {' | '.join(f'{error:.0%}' for error in ERRORS)} |\n|{'---|' * (len(ERRORS) + 1)}"
        )
        for table in PARTS:
            print(f"| {table} | {' | '.join(attainable_ranks(rows[table], error) for error in ERRORS)} |")


def floor(rows: list[Prediction]) -> str:
    """Say how far rows that no model can tell apart are from each other."""
    groups: dict[tuple[str, float], list[Prediction]] = {}
    for row in rows:
        groups.setdefault((row["model"], row["predicted_seconds"]), []).append(row)
    alike = [group for group in groups.values() if len(group) > 1]
    errors = [error for group in alike for error in errors_of_median(group)]
    own = f"{statistics.mean(errors):.2%}" if errors else "-"
    return f"{len(errors)} | {own} | {sum(errors) / len(rows):.2%} | {repeated_ranks(alike)}"


def errors_of_median(group: list[Prediction]) -> list[float]:
    """Give all rows the best prediction that they can share."""
    times = sorted(row["measured_seconds"] for row in group)
    return [abs(times[(len(times) - 1) // 2] / time - 1) for time in times]


def share(row: Prediction) -> float:
    """Tell the measured seconds of a token and GPU."""
    how = row["configuration"]
    return float(row["measured_seconds"] * how["gpus"] / how["global_batch"] / how["sequence"])


def ranks(values: list[float]) -> list[int]:
    """Give each its place."""
    order = sorted(values)
    return [order.index(value) for value in values]


Pairs = list[tuple[float, float]]


def mean_rank(models: dict[str, Pairs]) -> float | None:
    """Correlate the ranks of two sides of each model's configurations; models weigh as in `judge`."""
    large = [model for model in models.values() if len(model) > 2]
    if not large:
        return None
    weights = [len(model) - 1 for model in large]
    found = [
        statistics.correlation(*(ranks([pair[side] for pair in model]) for side in (0, 1))) for model in large
    ]
    return sum(w * r for w, r in zip(weights, found, strict=True)) / sum(weights)


def repeated_ranks(alike: list[list[Prediction]]) -> str:
    """Rank configurations by their first measurement against their last."""
    models: dict[str, Pairs] = {}
    for group in alike:
        models.setdefault(group[0]["model"], []).append((share(group[0]), share(group[-1])))
    found = mean_rank(models)
    return "-" if found is None else f"{found:.3f}"


def attainable_ranks(rows: list[Prediction], error: float) -> str:
    """Rank configurations by their times against the same, each with a random error of this mean size."""
    groups: dict[tuple[str, float], list[float]] = {}
    for row in rows:
        groups.setdefault((row["model"], row["predicted_seconds"]), []).append(share(row))
    chance = random.Random(1)
    deviation = error * math.sqrt(math.pi / 2)
    found = []
    for _ in range(100):
        models: dict[str, Pairs] = {}
        for (model, _), times in groups.items():
            time = statistics.geometric_mean(times)
            models.setdefault(model, []).append((time, time * math.exp(chance.gauss(0, deviation))))
        found.append(mean_rank(models) or 0)
    return f"{statistics.mean(found):.3f}"


# The built-in sets, and the table that each is fitted on; the last adds what single nodes cannot tell.
SETS = {
    "vtrain_single": "megatron-deepspeed",
    "bridge": "megatron",
    "torchtitan": "torchtitan",
    "vtrain_multi": "megatron-deepspeed",
}


def write_sets(data: Path) -> None:
    """Fit the built-in sets on all rows."""
    for table, name in SETS.items():
        path = FOLDER_OF_SETS / f"{name}.json"
        with tempfile.TemporaryDirectory() as folder:
            rows = Path(folder) / f"{table}.csv"
            write_table(rows, [dict(row) for row in rows_of(data / f"{table}.csv")])
            # What starts a fit between nodes is what the single node has just said.
            start = start_of(table, Path(folder))
            if table == "vtrain_multi":
                shutil.copy(path, start)
            fitted = advise("--fit", rows, "-o", path, "--constants", start, *only(table))
        print(f"{path}: {fitted['rows']} rows of {table}, {fitted['layers']} kinds of layers")


# The models of the traces' jobs: bias or gate, then columns of a table of peaks.
SHAPES = {
    "gpt2-1.5b": "0 48 1600 6400 25 25 50304 0 0 0 0",
    "llama2-7b": "1 32 4096 11008 32 32 32000 0 0 0 0",
    "qwen1.5-moe": "1 24 2048 1408 16 16 151936 60 4 1408 5632",
}
SHAPE = ["swiglu", "layers", "hidden", "ffn", "heads", "kv_heads", "vocab"]
SHAPE += ["experts", "topk", "moe_ffn", "shared_ffn"]
RANKS = 8  # that share the optimizer states of these jobs


FIRST_ROW = 2  # the line of a table's first row, behind its head


def table_of_traces(manifest: Path, path: Path) -> dict[int, str]:
    """Write the jobs of one pipeline rank as a table of peaks, in requested bytes; their names, by line."""
    rows = []
    names = []
    for name, job in json.loads(manifest.read_text()).items():
        command = job["command"]
        if "pp" not in command:
            print(f"{name}: left out: not a rank of a pipeline", file=sys.stderr)
            continue
        names.append(name)
        row: dict[str, Any] = dict(zip(SHAPE, SHAPES[command["model"]].split(), strict=True))
        row |= {"gpu": "H200", "gpus": command["pp"] * RANKS, "tp": 1, "pp": command["pp"]}
        row |= {"vp": command["vpp"], "mbs": command["mbs"], "gbs": command["mbs"] * command["mb"] * RANKS}
        row |= {"seq": max(job["sequence_lengths"]), "stage": command["rank"], "untied": 1, "compiled": 0}
        row |= {"recompute": command["recompute"], "sharding": "distributed_optimizer"}
        row["peak_allocated_bytes"] = round(job["peak_requested_gib"] * 2**30)
        rows.append(row)
    write_table(path, rows)
    return dict(enumerate(names, FIRST_ROW))


UNITS = {"GB": 10**9, "GiB": 2**30}
BRIDGE, STALLOC = "NVIDIA-NeMo/Megatron-Bridge", "infinigence/STAlloc"
LOGGERS = {BRIDGE: 10**9, STALLOC: 2**30}
# Bytes of each moment, where a recipe of Megatron-Bridge sets them: moonlight_16b.py exp_avg_dtype and
# exp_avg_sq_dtype. Its optimizer keeps fp32 parameters, not remainders of 16 bits: Megatron-Bridge's
# MixedPrecisionConfig hands it an fp8_recipe whatever the precision, and then Megatron-LM keeps them itself
# (OptimizerConfig).
MOMENT_BYTES = {"moonlight_16b": 2}
# What these jobs ran with, where the command does not know it (it knows what recipes of Megatron-Bridge set).
# Those of STAlloc are its example/*/ZR.sh: legacy models of Megatron-LM 0.8 with dropout and Llama 2's
# tokenizer, and experts of 0.10, one after another.
LLAMA = ["hidden-dropout=0.0", "position-embedding-type=rope"]
LEGACY = ["position-embedding-type=rope", "no-gradient-accumulation-fusion=True"]
ARGUMENTS = {
    BRIDGE: [],
    "llama2_7b": LEGACY,
    "gpt2_345m": LEGACY,
    "qwen15_moe_a27b": [*LLAMA, "no-bias-swiglu-fusion=True"],
}
# The job that is called gpt2_345m has GPT-2's sizes, and Llama's layers and vocabulary.
SHAPES_OF_JOBS = {"gpt2_345m": "1 24 1024 4096 16 16 32000"}


def allocated_bytes(given: Row) -> int:
    """Read the peak.

    STAlloc divides by 1024^3 (utils/memory_patcher.py), Megatron-Bridge by 1e9 (report_memory in
    training/utils/train_utils.py), whatever their pages call it. Where a row contradicts itself, its note
    says what the other figures of the row amount to.
    """
    implied = re.search(r"implies ([0-9.]+)", given["note"])
    logged = (size for name, size in LOGGERS.items() if given["source"].startswith(name))
    unit = next(logged, None) or UNITS[given["unit"]]
    return round(float(implied[1] if implied else given["peak_allocated"]) * unit)


def job_of(given: Row) -> dict[str, Any]:
    """Tell what the software that a row is of says of its job."""
    model = given["model"]
    arguments = ARGUMENTS[BRIDGE if given["source"].startswith(BRIDGE) else model]
    row: dict[str, Any] = {
        "gpu": "H100" if given["gpu"].startswith("H100") else "A100",
        "untied": 1,
        "etp": 1,
        "transformer_impl": "legacy" if arguments == LEGACY else "transformer_engine",
        "other_args": ";".join(arguments),
    }
    row["moment_bytes"] = MOMENT_BYTES.get(model, 4)
    if given["peak_allocated"]:
        row |= {"peak_allocated": allocated_bytes(given) / 2**30, "unit": "GiB"}
    # A public model has its own shape.
    row |= dict.fromkeys(("layers", "hidden", "heads", "vocab"), 1)
    if model in SHAPES_OF_JOBS:
        row |= {"model": ""} | dict(zip(SHAPE, SHAPES_OF_JOBS[model].split(), strict=False))
    return row


def table_of_tables(source: Path, path: Path) -> dict[int, str]:
    """Write the table with what is known of its jobs besides; returns what the rows are called, by line."""
    with source.open(newline="") as file:
        given = list(csv.DictReader(file))
    known = set(ARGUMENTS) - {BRIDGE}
    rows = [row for row in given if row["source"].startswith(BRIDGE) or row["model"] in known]
    if unknown := len(given) - len(rows):
        print(f"{source.stem}: left out: {unknown} rows of jobs that ARGUMENTS lacks", file=sys.stderr)
    write_table(path, [row | job_of(row) for row in rows])
    names = {}
    for line, row in enumerate(rows, FIRST_ROW):
        layout = f"tp{row['tp']} pp{row['pp']} vp{row['vp']}"
        rank = row["where"].partition(",")[0]
        names[line] = ", ".join([row["model"], layout, rank, row["recompute"], row["allocator"]])
    return names


def write_table(path: Path, rows: list[dict[str, Any]]) -> None:
    """Write rows, whose columns may differ."""
    columns = dict.fromkeys(column for row in rows for column in row)
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(columns), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def memory_error(row: Prediction) -> float:
    """How far the prediction is off, as a share."""
    return float(row["predicted_bytes"] / row["measured_bytes"] - 1)


SUMMARY = "| table | rows | mean error | median | worst |\n|---|---|---|---|---|"


def summary(name: str, rows: list[Prediction], left_out: int = 0) -> str:
    """One line of the table."""
    errors = sorted(abs(memory_error(row)) for row in rows)
    mean = statistics.mean(errors)
    count = of_all(len(rows), left_out)
    return f"| {name} | {count} | {mean:.1%} | {statistics.median(errors):.1%} | {errors[-1]:.1%} |"


def print_peaks(head: str, names: dict[int, str], rows: list[Prediction]) -> None:
    """Print predicted beside measured peaks; `names` are those of the lines of the table."""
    print(f"| {head} | measured GiB | predicted GiB | error |\n|---|---|---|---|")
    for row in rows:
        sizes = f"{row['measured_bytes'] / 2**30:.2f} | {row['predicted_bytes'] / 2**30:.2f}"
        print(f"| {names[row['line']]} | {sizes} | {memory_error(row):+.1%} |")
    print()


def judge_memory(data: Path, traces: Path) -> None:
    """Print predicted beside measured peaks."""
    with tempfile.TemporaryDirectory() as folder:
        table = Path(folder) / "traces.csv"
        names = table_of_traces(traces / "manifest.json", table)
        jobs = advise("--predict", table)
        tables = Path(folder) / "memory_tables.csv"
        described = table_of_tables(data / "memory_tables.csv", tables)
        others = advise("--predict", tables)
    print_peaks("memory_tables", described, others["predictions"])
    print_peaks("trace", names, jobs["predictions"])
    megatron = advise("--predict", data / "megatron_ci.csv")
    rows = megatron["predictions"]
    dense = [row for row in rows if row["model"].startswith("gpt")]
    moe = [row for row in rows if not row["model"].startswith("gpt")]
    titan = [row for row in advise("--predict", data / "torchtitan.csv")["predictions"] if "reserved" in row]
    print(SUMMARY)
    print(summary("traces", jobs["predictions"], len(jobs["left_out"])))
    print(summary("megatron_ci", rows, len(megatron["left_out"])))
    print(summary("megatron_ci, dense", dense))
    print(summary("megatron_ci, experts", moe))
    print(summary("torchtitan, reserved", titan))
    print(summary("memory_tables", others["predictions"], len(others["left_out"])))


def main() -> None:
    """Choose what to judge."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["time", "sets", "memory"])
    parser.add_argument("folder", type=Path)
    parser.add_argument("traces", type=Path, nargs="?")
    parser.add_argument("--plain", action="store_true", help="time: no kind of layer has a factor of its own")
    options = parser.parse_args()
    if options.what == "time":
        judge_time(options.folder, plain=options.plain)
    elif options.what == "sets":
        write_sets(options.folder)
    elif options.traces is None:
        parser.error("memory wants the folder of traces, too")
    else:
        judge_memory(options.folder, options.traces)


if __name__ == "__main__":
    main()
