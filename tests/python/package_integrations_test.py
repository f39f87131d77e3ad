"""The callbacks in the training loops that they are for: the real ones, on the CPU."""

import csv
import json
from pathlib import Path
from typing import Any

import pytest
from conftest import Run

STEPS = 12

TRANSFORMERS = """
import json, sys, torch
from stweaver.integrations.transformers import StweaverCallback
from transformers import LlamaConfig, LlamaForCausalLM, Trainer, TrainerCallback, TrainingArguments
import stweaver

class Reporter(TrainerCallback):
    logged = []
    def on_log(self, args, state, control, logs, **_):
        self.logged.append(dict(logs))

ours = StweaverCallback(device="cpu")
torch.manual_seed(0)
sizes = dict(vocab_size=64, hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=2)
model = LlamaForCausalLM(LlamaConfig(**sizes))
rows = [{"input_ids": torch.arange(32) % 64, "labels": torch.arange(32) % 64} for _ in range(64)]
arguments = TrainingArguments(output_dir=sys.argv[1], max_steps=int(sys.argv[2]), logging_steps=4,
    per_device_train_batch_size=2, gradient_accumulation_steps=2, use_cpu=True, report_to=[],
    save_strategy="no", disable_tqdm=True)
behind = sys.argv[3] == "callbacks"
callbacks = [Reporter(), ours] if behind else [Reporter()]
trainer = Trainer(model, arguments, train_dataset=rows, callbacks=callbacks)
if not behind:
    ours.add_to(trainer)
trainer.train()
print(json.dumps({"history": trainer.state.log_history, "reported": Reporter.logged,
                  "steps": stweaver.stats().devices[0].steps}))
"""

LIGHTNING = """
import sys, torch, stweaver
import lightning.pytorch as lightning
from lightning.pytorch.loggers import CSVLogger
from stweaver.integrations.lightning import StweaverCallback

class Module(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.Sequential(*(torch.nn.Linear(64, 64) for _ in range(4)))
    def training_step(self, batch, index):
        return self.layers(batch).square().mean()
    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters())

trainer = lightning.Trainer(max_steps=int(sys.argv[2]), accelerator="cpu", accumulate_grad_batches=2,
    callbacks=[StweaverCallback(device="cpu")], logger=CSVLogger(sys.argv[1], name="", version=""),
    log_every_n_steps=4, enable_progress_bar=False, enable_checkpointing=False, enable_model_summary=False)
trainer.fit(Module(), torch.utils.data.DataLoader(torch.randn(1024, 64), batch_size=16))
print(stweaver.stats().devices[0].steps)
"""


def train(python: Run, tmp_path: Path, way: str) -> Any:  # noqa: ANN401  (a JSON document)
    done = python("-c", TRANSFORMERS, tmp_path, str(STEPS), way)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("way", ["callbacks", "add_to"])
def test_a_transformers_trainer_marks_its_steps_and_keeps_our_numbers(
    python: Run, tmp_path: Path, way: str
) -> None:
    run = train(python, tmp_path, way)
    assert run["steps"] == STEPS, "one for two micro-batches"
    assert [line["step"] for line in run["history"][:3]] == [4, 8, 12]
    for line in run["history"]:
        assert line["stweaver/peak_reserved_bytes"] >= line["stweaver/peak_requested_bytes"] > 1 << 16
        assert 0 < line["stweaver/step_efficiency"] <= 1
    assert ("stweaver/follows_plan" in run["reported"][0]) == (way == "add_to"), (
        "reporters come before callbacks"
    )


def test_a_lightning_trainer_marks_its_steps_and_logs_our_numbers(python: Run, tmp_path: Path) -> None:
    done = python("-c", LIGHTNING, tmp_path, str(STEPS))
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == str(STEPS), "one for two micro-batches"
    with (tmp_path / "metrics.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [int(row["step"]) for row in rows] == [3, 7, 11]
    for row in rows:
        assert (
            float(row["stweaver/peak_reserved_bytes"])
            >= float(row["stweaver/peak_requested_bytes"])
            > 1 << 16
        )


def test_in_a_forked_child_a_callback_says_one_line_and_logs_nothing(python: Run) -> None:
    program = """
import os, stweaver
from stweaver.integrations import enable, numbers
enable(device="cpu")
child = os.fork()
if child == 0:
    enable(device="cpu")
    stweaver.mark_step()
    os._exit(0 if numbers(None) == numbers(None) == {} else 3)
print(os.waitpid(child, 0)[1], numbers([]))
"""
    done = python("-c", program)
    assert done.stdout == "0 {}\n", done.stderr
    lines = [line for line in done.stderr.splitlines() if "building" not in line]
    assert lines == [
        "stweaver: not enabled here: this process was forked from one where it was; it runs on plain PyTorch"
    ]


@pytest.mark.parametrize("library", ["transformers", "lightning"])
def test_importing_the_package_imports_neither_library(python: Run, library: str) -> None:
    done = python("-c", f"import stweaver, stweaver.integrations, sys; print({library!r} in sys.modules)")
    assert done.stdout == "False\n"
