"""Small programs on null CUDA: each runs in a process of its own and says what it found in a line of JSON."""

import importlib.util
import json
import os
import sys
import tempfile
import textwrap
from pathlib import Path
from typing import Any

import forks
import pytest

PACKAGES = Path(__file__).resolve().parents[1] / "python"
# A Python that has torch, where the one of the tests has none.
PYTHON = Path(os.environ.get("NULLCUDA_PYTHON", sys.executable))

needs_torch = pytest.mark.skipif(
    "NULLCUDA_PYTHON" not in os.environ and importlib.util.find_spec("torch") is None,
    reason="no torch here; NULLCUDA_PYTHON may name a Python that has it",
)

START = """
import ctypes, json, sys
import torch
core = ctypes.CDLL(None)
core.nullcuda_knows.argtypes = core.nullcuda_forget.argtypes = [ctypes.c_void_p, ctypes.c_size_t]

def knows(tensor):
    "Ask null CUDA whether it knows all that a contiguous tensor holds."
    return bool(core.nullcuda_knows(tensor.data_ptr(), tensor.nbytes))

def unknown(*shape, dtype=torch.float32):
    "Make a tensor of which nobody knows what it holds, as a product of large matrices is."
    tensor = torch.zeros(shape, dtype=dtype, device="cuda")
    core.nullcuda_forget(tensor.data_ptr(), tensor.nbytes)
    return tensor

def say(**found):
    print(json.dumps(found))
"""


# PyTorch 2.15 aborts now and then where a program ends right after its first backward pass, watched or not;
# any release does where a process group is left to the end, whose heartbeat monitor then asks for Python's
# lock.
END = """
import time
if torch.distributed.is_initialized():
    torch.distributed.destroy_process_group()
time.sleep(0.5)
"""


def run(program: str, *options: str, report: Path | None = None) -> Any:  # noqa: ANN401  # whatever it says
    """Run a program under `nullcuda run` and return what it says."""
    environment = {**os.environ, "PYTHONPATH": str(PACKAGES), "OMP_NUM_THREADS": "1"}
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder, "program.py")
        script.write_text(START + textwrap.dedent(program) + END)
        if report:  # a fork does not write one
            done = forks.run_alone(PYTHON, [script], [*options, "--report", str(report)], environment)
        else:
            done = forks.run(PYTHON, [script], options, environment)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])
