"""Train one model in many layouts on null CUDA, and set what a rank asks for beside what `advise` predicts.

    python3 bench/live/layouts.py                           all layouts, as Markdown
    python3 bench/live/layouts.py tp4_sp pp4_last --json layouts.json

The model is a Llama of megatron-core on eight GPUs, one rank of which is trained. What that needs is
installed as for run.py; the prediction is that of build/release/stweaver. Layouts that fail or that cannot be
predicted are named, and the others go on; the exit status is 1 then.
"""

import argparse
import json
import shutil
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import environment
import run
from jobs import Job

import report

sys.path.append(str(Path(__file__).resolve().parents[1]))
import advise

GPUS = 8
MICRO_BATCHES = 8
TOP = 2  # experts of a token
STEPS = 3  # the second is the first that finds the optimizer's states

# Llama 3 8B with half of its layers, and half of the sequence: columns of a table of peaks.
SHAPE = {
    "layers": 16,
    "hidden": 4096,
    "ffn": 14336,
    "heads": 32,
    "kv_heads": 8,
    "vocab": 128256,
    "seq": 4096,
}
# The same as arguments of the client.
ARGUMENTS = ["layers", "hidden", "ffn", "heads", "groups", "vocabulary", "sequence"]
MEGATRON = [
    "hidden-dropout=0.0",
    "position-embedding-type=rope",
    "no-gradient-accumulation-fusion=True",
    "no-create-attention-mask-in-dataloader=True",
]


@dataclass(frozen=True)
class Layout:
    """How the model is spread, and the stage whose first rank is looked at."""

    experts: int = 0
    ep: int = 1
    tp: int = 1
    sp: bool = False
    pp: int = 1
    vp: int = 1
    stage: int = 0
    mbs: int = 1
    zero: int = 1
    attention: str = "flash"
    recompute: str = "none"
    recompute_layers: int = 0  # of each chunk; 0: all

    @property
    def ffn(self) -> int:
        """Width of an MLP: experts are narrower."""
        return SHAPE["ffn"] // (4 if self.experts else 1)

    def job(self) -> Job:
        """Say what trains it."""
        sizes = dict(zip(ARGUMENTS, SHAPE.values(), strict=True))
        unit = 128 * self.tp
        sizes["vocabulary"] = -(-SHAPE["vocab"] // unit) * unit  # as Megatron-LM pads it
        sizes |= {"tensor": self.tp, "pipeline": self.pp, "virtual": self.vp if self.vp > 1 else 0}
        sizes |= {"experts": self.experts, "expert-parallel": self.ep}
        sizes |= {"ffn": self.ffn, "micro-batch": self.mbs, "micro-batches": MICRO_BATCHES, "zero": self.zero}
        sizes |= {"recompute-layers": self.recompute_layers or SHAPE["layers"] // self.pp // self.vp}
        arguments = [word for name, size in sizes.items() for word in (f"--{name}", str(size))]
        arguments += ["--attention", self.attention, "--recompute", self.recompute]
        arguments += [*(["--sequence-parallel"] if self.sp else [])]
        rank = self.stage * (GPUS // self.pp)
        return Job("megatron_layout", tuple(arguments), rank=rank, world=GPUS, steps=STEPS)

    def row(self, peak: int) -> dict[str, Any]:
        """Describe it as a row of a table of peaks."""
        ranks = GPUS // self.tp // self.pp
        row: dict[str, Any] = dict(SHAPE)
        row |= {"swiglu": 1, "untied": 1, "gpu": "H200", "gpus": GPUS, "peak_allocated_bytes": peak}
        row |= {"tp": self.tp, "pp": self.pp, "vp": self.vp, "stage": self.stage, "sp": int(self.sp)}
        row |= {
            "experts": self.experts,
            "topk": TOP if self.experts else 0,
            "moe_ffn": self.ffn,
            "ep": self.ep,
            "etp": 1,
        }
        row |= {"mbs": self.mbs, "gbs": self.mbs * MICRO_BATCHES * ranks}
        row |= {"recompute": self.recompute, "recompute_layers": self.recompute_layers}
        row |= {"sharding": "distributed_optimizer" if self.zero else "none"}
        row |= {
            "attention_backend": self.attention,
            "transformer_impl": "none",
            "other_args": ";".join(MEGATRON),
        }
        return row


LAYOUTS = {
    "dp8": Layout(),
    "dp8_zero0": Layout(zero=0),
    "dp8_mbs2": Layout(mbs=2),
    "dp8_mbs4": Layout(mbs=4),
    "dp8_full": Layout(recompute="full"),
    "dp8_full_mbs4": Layout(recompute="full", mbs=4),
    "dp8_full_6": Layout(recompute="full", recompute_layers=6),
    "dp8_selective": Layout(recompute="selective"),
    "tp2": Layout(tp=2),
    "tp2_sp": Layout(tp=2, sp=True),
    "tp4": Layout(tp=4),
    "tp4_sp_mbs4": Layout(tp=4, sp=True, mbs=4),
    "tp8_mbs2": Layout(tp=8, mbs=2),
    "tp8_sp_mbs4": Layout(tp=8, sp=True, mbs=4),
    "tp8_sp_full_mbs4": Layout(tp=8, sp=True, mbs=4, recompute="full"),
    "pp2_first": Layout(pp=2),
    "pp2_last": Layout(pp=2, stage=1),
    "pp4_first": Layout(pp=4),
    "pp4_last": Layout(pp=4, stage=3),
    "pp4_vp2_first": Layout(pp=4, vp=2),
    "pp4_vp2_last": Layout(pp=4, vp=2, stage=3),
    "pp4_vp4_full_first": Layout(pp=4, vp=4, recompute="full", mbs=2),
    "tp2_sp_pp2_first": Layout(tp=2, sp=True, pp=2, mbs=2),
    "tp2_sp_pp4_last": Layout(tp=2, sp=True, pp=4, stage=3, mbs=2),
    "tp2_sp_pp2_selective": Layout(tp=2, sp=True, pp=2, mbs=2, recompute="selective"),
    "tp8_unfused": Layout(tp=8, attention="unfused"),
    "tp4_pp2_unfused_last": Layout(tp=4, pp=2, stage=1, attention="unfused"),
    "moe_ep8": Layout(experts=8, ep=8),
    "moe_ep4_mbs2": Layout(experts=8, ep=4, mbs=2),
    "moe_ep4_pp2_first": Layout(experts=8, ep=4, pp=2),
    "moe_ep4_pp2_last": Layout(experts=8, ep=4, pp=2, stage=1),
    "moe_ep2_tp2_sp_full": Layout(experts=8, ep=2, tp=2, sp=True, recompute="full"),
}


def main() -> int:
    chosen = arguments()
    setting = run.Setting(chosen.python or str(environment.ensure()), chosen.out.resolve(), "h200", False)
    wanted = chosen.layouts or LAYOUTS
    peaks = {name: peak for name in wanted if (peak := measure(name, setting)) is not None}
    if not peaks:
        return 1
    predicted = predict(peaks)
    if chosen.json:
        chosen.json.write_text(json.dumps(predicted, indent=1) + "\n")
    print(table(predicted, len(wanted) - len(predicted)))
    return int(len(predicted) < len(wanted))


def arguments() -> argparse.Namespace:
    first, _, details = __doc__.partition("\n")
    parser = argparse.ArgumentParser(
        description=first, epilog=details, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    names = f"of: {', '.join(LAYOUTS)}; default: all"
    parser.add_argument("layouts", nargs="*", metavar="LAYOUT", help=names)
    parser.add_argument("--out", type=Path, default=environment.ROOT / "build" / "live" / "layouts")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the table's figures there, too")
    parser.add_argument("--python", help="of an environment that has the libraries already")
    chosen = parser.parse_args()
    if unknown := set(chosen.layouts) - set(LAYOUTS):
        parser.error(f"no such layout: {', '.join(sorted(unknown))}")
    return chosen


def measure(name: str, setting: run.Setting) -> int | None:
    """Train a rank; the most that it asked for, in bytes, or None where it fails."""
    folder = setting.out / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    result: Any = run.run(LAYOUTS[name].job(), "default", folder, setting)
    print(f"{name}: {report.line(result)}", file=sys.stderr, flush=True)
    return None if result["error"] else int(result["asked"])


def predict(peaks: dict[str, int]) -> dict[str, advise.Prediction]:
    """Ask the advisor for the same ranks; those that it can predict."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "layouts.csv"
        advise.write_table(path, [LAYOUTS[name].row(peak) for name, peak in peaks.items()])
        answer = advise.advise("--predict", path)
    names = dict(enumerate(peaks, advise.FIRST_ROW))
    return {names[row["line"]]: row for row in answer["predictions"]}


def table(rows: dict[str, advise.Prediction], left_out: int) -> str:
    """Make the table of all layouts, and that of the errors."""
    cells = [
        [
            name,
            f"{row['measured_bytes'] / report.GIB:.3f}",
            f"{row['predicted_bytes'] / report.GIB:.3f}",
            f"{advise.memory_error(row):+.2%}",
        ]
        for name, row in rows.items()
    ]
    listing = report.table(["layout", "measured GiB", "predicted GiB", "error"], cells)
    return f"{listing}\n\n{advise.SUMMARY}\n{advise.summary('layouts', list(rows.values()), left_out)}"


if __name__ == "__main__":
    sys.exit(main())
