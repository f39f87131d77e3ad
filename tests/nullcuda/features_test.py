"""Memory features under the CUDA wrapper, in checking mode: what bench/gpu/features.py tries on a GPU."""

import ast
import json
import subprocess
from pathlib import Path

import pytest
from runs import ROOT, null_run

# Left to the GPU and to `make live`: this one needs Triton.
NEEDS_TRITON = 'torch.compile("reduce-overhead")'
# It uses memory wrongly on purpose, to prove that record_stream is needed: order_test.py has both sides.
MISUSES_MEMORY = "record_stream"
# It takes a stream that is at work for a while: order_test.py has its own.
TAKES_TIME = "record_stream of another device"
# Each rank is alone with null CUDA's NCCL: there is one here.
OF_ONE_RANK = "NCCL collectives"
FEATURES = [
    "memory_allocated",
    "memory_reserved",
    "memory_stats",
    "memory_summary",
    "torch.accelerator.memory_allocated",
    "reset_peak_memory_stats",
    "memory_snapshot",
    "_record_memory_history",
    "_memory_viz",
    "CUDA graphs",
    "MemPool",
    "DataParallel, threads",
    "cudnn.benchmark",
    "torch.profiler with memory",
    "empty_cache",
    "set_per_process_memory_fraction",
    "out of memory, and on",
    "off and on in a running job",
    "record_stream of planned blocks",
    "record_stream after it is off",
    "record_stream of another device, captured",
    "IPC between processes",
    OF_ONE_RANK,
    "a capture that fails",
]


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[str, str]]:
    """Try all of them: "yes", "no" or "not tried", and a remark."""
    of_two = [name for name in FEATURES if name != OF_ONE_RANK]
    found: dict[str, tuple[str, str]] = {}
    for devices, names in ((2, of_two), (1, [OF_ONE_RANK])):
        out = tmp_path_factory.mktemp("features")
        done = null_run(
            ROOT / "bench" / "gpu" / "features.py",
            *("--out", str(out), "--ways", "wrapper", "--seconds", "280", "--only", *names),
            options=("--check", "--devices", str(devices), "--values-limit", str(1 << 30)),
        )
        found |= read(out / "features.wrapper.jsonl", done)
    return found


def read(path: Path, done: subprocess.CompletedProcess[str]) -> dict[str, tuple[str, str]]:
    assert path.is_file(), done.stdout + done.stderr
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    return {line["feature"]: (line["answer"], line["remark"]) for line in lines}


def test_every_feature_is_tried_here_or_said_to_be_left_out() -> None:
    program = ast.parse((ROOT / "bench" / "gpu" / "checks.py").read_text())
    tables = [node.value for node in program.body if isinstance(node, ast.AnnAssign)]
    names = {
        ast.literal_eval(key) for table in tables if isinstance(table, ast.Dict) for key in table.keys if key
    }
    assert names == {*FEATURES, NEEDS_TRITON, MISUSES_MEMORY, TAKES_TIME}


@pytest.mark.parametrize("feature", FEATURES)
def test_feature_works_under_the_wrapper(feature: str, outcomes: dict[str, tuple[str, str]]) -> None:
    answer, remark = outcomes[feature]
    if answer == "not tried":
        pytest.skip(remark)
    assert answer == "yes", remark
