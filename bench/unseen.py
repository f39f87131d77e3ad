"""How well the models predict what others have measured, and nothing was fitted on.

python3 bench/unseen.py papers: steps of Megatron-LM on A100 and of NeMo on H100, typed in below, by the sets
of constants that are Megatron's.

python3 bench/unseen.py peaks: peaks of memory of a pipeline with large vocabularies, typed in below.

python3 bench/unseen.py foundry README: the tables in scripts/train/benchmarking/README.md of llm-foundry, by
torchtitan's constants and by some that are fitted on every second row.
"""

import argparse
import statistics
import sys
import tempfile
from pathlib import Path

from advise import FIRST_ROW, FOLDER_OF_SETS, START, Row, advise, rows_predicted, start_of, write_table

HEAD = "| rows | constants | number | mean error | median | as one | rank correlation |\n" + "|---" * 7 + "|"


def judge_rows(what: str, whose: str, rows: list[Row], folder: Path, *options: str | Path) -> None:
    """Print a line; `as one` is the mean error once all rows of a GPU are as much faster or slower."""
    table = folder / "rows.csv"
    write_table(table, rows)
    answer = advise("--predict", table, *options)
    errors: dict[str, list[float]] = {}
    for row in answer["predictions"]:
        ratio = row["predicted_seconds"] / row["measured_seconds"]
        errors.setdefault(row["gpu"], []).append(ratio)
    left = [abs(ratio / statistics.median(of) - 1) for of in errors.values() for ratio in of]
    found = answer["mean_absolute_error"], answer["median_absolute_error"], statistics.mean(left)
    rank = "-" if answer["rank_correlation"] is None else f"{answer['rank_correlation']:.3f}"
    said = [rows_predicted(answer), *(f"{error:.1%}" for error in found), rank]
    print(f"| {what} | {whose} | {' | '.join(said)} |")


# ---- papers ----

SEQUENCE, VOCABULARY = 2048, 51200
SHAPE = ("layers", "hidden", "heads", "gpus", "tp", "pp", "vp", "mbs", "gbs", "sp", "recompute")

# Narayanan et al., arXiv 2104.04473, table 1: shape, then TFLOP/s of a GPU. Micro-batches are not printed: 1
# sequence where there is a pipeline, as in its table 2, and else 4. (With 2, steps would be predicted 2 to
# 12 % longer, with 16 up to 4 % shorter.) Nor are virtual stages.
WEAK_SCALING = """
24 2304 24 32 1 1 1 4 512 0 full 137
30 3072 32 64 2 1 1 4 512 0 full 138
36 4096 32 128 4 1 1 4 512 0 full 142
40 6144 48 256 8 1 1 4 1024 0 full 135
48 8192 64 512 8 2 1 1 1536 0 full 138
60 10240 80 1024 8 4 1 1 1792 0 full 140
80 12288 96 1536 8 8 1 1 2304 0 full 148
96 16384 128 1920 8 16 1 1 2160 0 full 155
105 20480 128 2520 8 35 1 1 2520 0 full 163
128 25600 160 3072 8 64 1 1 3072 0 full 163
"""
# The same paper, table 2, without the rows of another library.
STRONG_SCALING = """
96 12288 96 384 8 12 1 1 1536 0 full 153
96 12288 96 768 8 12 1 1 1536 0 full 149
96 12288 96 1536 8 12 1 1 1536 0 full 141
105 20480 128 560 8 35 1 1 2240 0 full 171
105 20480 128 1120 8 35 1 1 2240 0 full 167
105 20480 128 2240 8 35 1 1 2240 0 full 159
"""
# Korthikanti et al., arXiv 2205.05198, table 5: shape, then seconds of a step.
RECOMPUTATION = """
48 6144 64 8 8 1 1 4 4 0 full 1.42
48 6144 64 8 8 1 1 4 4 1 selective 1.10
96 12288 96 64 8 8 3 1 64 0 full 18.13
96 12288 96 64 8 8 3 1 64 1 selective 13.75
105 20480 128 280 8 35 3 1 280 0 full 49.05
105 20480 128 280 8 35 3 1 280 1 selective 37.83
128 25600 160 512 8 64 1 1 512 0 full 94.42
128 25600 160 512 8 64 1 1 512 1 selective 71.49
"""
# What the last column is, by paper and table.
RATE, SECONDS = "rate", "seconds"
PAPERS = {
    "2104.04473, table 1": (WEAK_SCALING, RATE),
    "2104.04473, table 2": (STRONG_SCALING, RATE),
    "2205.05198, table 5": (RECOMPUTATION, SECONDS),
}


def seconds_of(row: Row, rate: float) -> float:
    """Turn TFLOP/s of a GPU into seconds; its source counts recomputed passes (section 5.1)."""
    layers, hidden, batch, gpus = (int(row[name]) for name in ("layers", "hidden", "gbs", "gpus"))
    share = 1 + SEQUENCE / (6 * hidden) + VOCABULARY / (16 * layers * hidden)
    return 96 * batch * SEQUENCE * layers * hidden**2 * share / (gpus * rate * 1e12)


def rows_of_paper(table: str, unit: str) -> list[Row]:
    """Turn lines into rows of a table of shapes; nodes of eight A100 have eight adapters of 200 Gbit/s."""
    same = {"gpu": "A100", "node_size": "8", "inter_node_Gbps": "1600"}
    same |= {"seq": str(SEQUENCE), "vocab": str(VOCABULARY)}
    rows = []
    for line in table.strip().splitlines():
        *shape, measured = line.split()
        row = dict(zip(SHAPE, shape, strict=True)) | same
        seconds = float(measured) if unit == SECONDS else seconds_of(row, float(measured))
        rows.append(row | {"iteration_ms": str(seconds * 1000)})
    return rows


# NeMo of July 2024 on H100 in fp8, docs/source/performance/performance_summary.md of NVIDIA/NeMo at commit
# 070a0bb168, pretraining: tokens/s of a GPU. Layers and the like are those of its launcher's configurations.
NEMO_COLUMNS = (
    *("layers", "hidden", "heads", "kv_heads", "ffn", "swiglu", "untied", "vocab"),
    *("gpus", "tp", "pp", "vp", "cp", "mbs", "gbs", "seq", "tokens_per_s_per_gpu"),
)
NEMO = """
24 4096 32 32 16384 0 0 50257 64 1 1 1 1 4 2048 2048 22521
44 6144 48 48 24576 0 0 50257 64 2 1 1 1 2 256 2048 5851
96 12288 96 96 49152 0 0 50257 128 4 8 6 1 1 256 2048 726
96 12288 96 96 49152 0 0 50257 512 4 8 6 1 2 2048 2048 782
32 4096 32 32 11008 1 1 32000 8 1 1 1 1 1 128 4096 16847
40 5120 40 40 13824 1 1 32000 16 1 4 10 1 1 128 4096 8646
80 8192 64 8 28672 1 1 32000 64 4 4 20 1 1 128 4096 1707
32 4096 32 32 16384 0 1 256000 64 2 1 1 1 4 256 4096 12701
40 6144 48 48 24576 0 1 256000 64 2 4 10 1 2 256 4096 4256
96 18432 96 8 73728 0 1 256000 128 8 8 12 1 1 32 4096 322
32 4096 32 8 14336 1 1 128256 8 1 1 1 2 1 128 8192 12036
80 8192 64 8 28672 1 1 128256 64 4 4 5 2 1 128 8192 1533
"""


def rows_of_nemo() -> list[Row]:
    """Turn lines into rows of a table of Megatron's recipes; 24.07 had no kernel for whole experts."""
    same = {"gpu": "H100", "precision": "FP8", "release": "24.07"}
    lines = NEMO.strip().splitlines()
    return [dict(zip(NEMO_COLUMNS, line.split(), strict=True)) | same for line in lines]


def judge_papers() -> None:
    """Print a line for each table and set."""
    print(HEAD)
    with tempfile.TemporaryDirectory() as name:
        for paper, table in PAPERS.items():
            for whose in ("megatron-deepspeed", "megatron"):
                constants = FOLDER_OF_SETS / f"{whose}.json"
                judge_rows(paper, f"{whose}'s", rows_of_paper(*table), Path(name), "--constants", constants)
        judge_rows("NeMo 24.07", "megatron's", rows_of_nemo(), Path(name))


# ---- peaks ----

# Vocabulary parallelism (sail-sg/VocabularyParallelism, artifact/exp_one_host.csv, base): a GPT of 32 layers
# on 8 A100, one stage each, Megatron-LM of 2024 in fp16 with the distributed optimizer and flash attention;
# sequence, words, and MiB allocated on the fullest rank.
LARGE_VOCABULARIES = """
2048 256000 26256.8
2048 128000 19711.8
2048 64000 16713.4
2048 32000 15215.4
4096 256000 32397.0
4096 128000 26397.0
4096 64000 23398.7
4096 32000 21900.7
"""


def judge_peaks() -> None:
    """Print measured and predicted peaks."""
    same = {"gpu": "A100", "gpus": "8", "layers": "32", "hidden": "3072", "heads": "24", "untied": "1"}
    same |= {"tp": "1", "pp": "8", "mbs": "1", "gbs": "128", "stage": "fullest", "precision": "fp16"}
    same |= {"sharding": "distributed_optimizer", "attention_backend": "flash", "unit": "GiB"}
    cells = [line.split() for line in LARGE_VOCABULARIES.strip().splitlines()]
    rows = [
        same | {"seq": sequence, "vocab": words, "peak_allocated": str(float(peak) / 1024)}
        for sequence, words, peak in cells
    ]
    print("| sequence | words | measured GiB | predicted GiB | error |\n|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as name:
        table = Path(name) / "peaks.csv"
        write_table(table, rows)
        for found in advise("--predict", table)["predictions"]:
            row = rows[found["line"] - FIRST_ROW]
            measured, predicted = (found[key] / 2**30 for key in ("measured_bytes", "predicted_bytes"))
            what = f"{row['seq']} | {row['vocab']} | {measured:.2f} | {predicted:.2f}"
            print(f"| {what} | {predicted / measured - 1:+.1%} |")


# ---- llm-foundry ----

# MPT's layers, hidden units and heads (scripts/train/yamls/pretrain), and GPUs by their names there.
MPT = {
    "125m": (12, 768, 12),
    "350m": (24, 1024, 16),
    "760m": (24, 1536, 12),
    "1b": (24, 2048, 16),
    "3b": (32, 2560, 32),
    "7b": (32, 4096, 32),
    "13b": (40, 5120, 40),
    "30b": (48, 7168, 56),
    "70b": (80, 8192, 64),
}
FOUNDRY_GPUS = {"h100_80gb": "H100", "a100_80gb": "A100", "a100_40gb": "A100-40GB"}


def foundry_row(cells: list[str]) -> Row:
    """Read a line of llm-foundry's tables: FSDP of MPT, bf16, not compiled, a fused loss."""
    name, sequence, gpus, gpu = cells[:4]
    micro_batch, _, global_batch, _, tokens = cells[7:12]
    layers, hidden, heads = MPT[name]
    values = {
        "model": f"mpt_{name}",
        "layers": layers,
        "hidden": hidden,
        "heads": heads,
        "vocab": 50368,
        "gpu": FOUNDRY_GPUS[gpu],
        "gpus": gpus,
        "tp": 1,
        "pp": 1,
        "local_batch": micro_batch,
        "gbs": global_batch,
        "seq": sequence,
        "activation_checkpointing": "full" if cells[17] == "True" else "none",
        "compile": 0,
        "loss": "fused",
        "tokens_per_s_per_gpu": int(tokens) / int(gpus),
    }
    return {key: str(value) for key, value in values.items()}


def judge_foundry(readme: Path) -> None:
    """Predict with the built-in set, and with one that was fitted on every second row."""
    lines = [[cell.strip() for cell in line.split("|")[1:-1]] for line in readme.read_text().splitlines()]
    runs = [cells for cells in lines if len(cells) == 20 and cells[2].isdigit()]
    rows = [foundry_row(cells) for cells in runs if cells[14] in {"amp_bf16", "bf16"}]
    if others := len(runs) - len(rows):
        print(f"{readme}: left out: {others} rows that are not of bf16", file=sys.stderr)
    with tempfile.TemporaryDirectory() as name:
        half, constants = Path(name) / "half.csv", Path(name) / "constants.json"
        write_table(half, rows[::2])
        numbers = ",".join(key for key in START["torchtitan"] if "fp8" not in key and "tensor" not in key)
        start = start_of("torchtitan", Path(name))
        advise("--fit", half, "-o", constants, "--constants", start, "--only", numbers)
        print(HEAD)
        judge_rows("all", "torchtitan's", rows, Path(name))
        for gpu in FOUNDRY_GPUS.values():
            judge_rows(gpu, "torchtitan's", [row for row in rows if row["gpu"] == gpu], Path(name))
        judge_rows("every second", "of the others", rows[1::2], Path(name), "--constants", constants)


def main() -> None:
    """Choose what to judge."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["papers", "peaks", "foundry"])
    parser.add_argument("readme", type=Path, nargs="?", help="of llm-foundry")
    options = parser.parse_args()
    if options.what == "papers":
        judge_papers()
    elif options.what == "peaks":
        judge_peaks()
    elif options.readme is None:
        parser.error("foundry wants its README, too")
    else:
        judge_foundry(options.readme)


if __name__ == "__main__":
    main()
