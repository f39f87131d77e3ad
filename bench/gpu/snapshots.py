"""Record small memory snapshots that show what the large examples do not, one feature each.

    python3 bench/gpu/snapshots.py OUT

Needs a CUDA GPU and PyTorch >= 2.10. Each snapshot is PyTorch's own dump, with Python frames, compressed, and
beside it in `facts.json` what the job itself knows: how many tensors it made, the peak of requested bytes,
the reserve. The results are kept in examples/snapshots.
"""

import json
import lzma
import os
import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

MIB = 1 << 20


def tensor(mib: float) -> torch.Tensor:
    return torch.empty(int(mib * MIB), dtype=torch.uint8, device="cuda")


def steps() -> None:
    """Train a tiny model whose steps are marked with user metadata."""
    model = torch.nn.Sequential(*[torch.nn.Linear(256, 256) for _ in range(4)]).cuda()
    optimizer = torch.optim.AdamW(model.parameters())
    for step in range(5):
        torch.cuda.memory._set_memory_metadata(f"step {step}")
        optimizer.zero_grad()
        model(torch.randn(512, 256, device="cuda")).square().mean().backward()
        optimizer.step()


def streams() -> None:
    """Use a block on a second stream: its memory is free only when that stream is done with it."""
    side = torch.cuda.Stream()
    for _ in range(4):
        block = tensor(8)
        with torch.cuda.stream(side):
            torch.cuda._sleep(200_000_000)
            block.add_(1)
        block.record_stream(side)
        del block
        between = [tensor(1) for _ in range(3)]
        torch.cuda.synchronize()
        between.append(tensor(1))
        del between


def out_of_memory() -> None:
    """Ask for more than there is, twice, and go on."""
    keep = tensor(4)
    for _ in range(2):
        try:
            torch.empty(1 << 41, dtype=torch.uint8, device="cuda")
        except torch.OutOfMemoryError:
            keep = tensor(2)
    del keep


def graph() -> None:
    """Capture a CUDA graph, whose memory comes from a private pool."""
    x = torch.randn(1024, 1024, device="cuda")
    (x @ x).relu_()
    torch.cuda.synchronize()
    captured = torch.cuda.CUDAGraph()
    with torch.cuda.graph(captured):
        y = (x @ x).relu()
    captured.replay()
    torch.cuda.synchronize()
    del y, captured


def late() -> None:
    """Allocate and free around the beginning of recording (the caller made `BEFORE`)."""
    BEFORE.pop()
    BEFORE.append(tensor(3))
    BEFORE.pop(0)
    BEFORE.append(tensor(5))


def devices() -> None:
    """Allocate on every device."""
    for device in range(torch.cuda.device_count()):
        with torch.cuda.device(device):
            blocks = [tensor(device + 1) for _ in range(3 + device)]
            del blocks


BEFORE: list[torch.Tensor] = []
JOBS: dict[str, Callable[[], None]] = {
    "steps": steps,
    "expandable": steps,
    "streams": streams,
    "out_of_memory": out_of_memory,
    "graph": graph,
    "late": late,
    "devices": devices,
}


def record(name: str, out: Path) -> None:
    """Run one job under recording and write its snapshot and the facts."""
    if name == "late":
        BEFORE.extend(tensor(mib) for mib in (2, 12, 30, 1))
    torch.cuda.reset_peak_memory_stats()
    torch.cuda.reset_accumulated_memory_stats()
    torch.cuda.memory._record_memory_history(max_entries=100_000)
    JOBS[name]()
    torch.cuda.synchronize()
    snapshot: dict[str, Any] = torch.cuda.memory._snapshot()
    facts = []
    for device in range(torch.cuda.device_count()):
        stats = torch.cuda.memory_stats(device)
        facts.append(
            {
                "allocations": stats["allocation.all.allocated"],
                "frees": stats["allocation.all.freed"],
                "requested_peak": stats["requested_bytes.all.peak"],
                "reserved": stats["reserved_bytes.all.current"],
                "reserved_peak": stats["reserved_bytes.all.peak"],
                "ooms": stats["num_ooms"],
            }
        )
    with lzma.open(out / f"{name}.pickle.xz", "wb") as file:
        pickle.dump(snapshot, file)
    (out / f"{name}.json").write_text(json.dumps({"torch": torch.__version__, "devices": facts}, indent=1))


def main() -> None:
    out = Path(sys.argv[1])
    out.mkdir(parents=True, exist_ok=True)
    if len(sys.argv) > 2:
        record(sys.argv[2], out)
        return
    everything = {}
    for name in JOBS:  # each in a process of its own: an allocator has a past
        settings = "expandable_segments:True" if name == "expandable" else ""
        environment = os.environ | {"PYTORCH_CUDA_ALLOC_CONF": settings}
        subprocess.run([sys.executable, __file__, str(out), name], check=True, env=environment)
        everything[name] = json.loads((out / f"{name}.json").read_text())
        (out / f"{name}.json").unlink()
        size = (out / f"{name}.pickle.xz").stat().st_size
        print(f"{name:<14} {size:>8} bytes  {everything[name]['devices']}")
    (out / "facts.json").write_text(json.dumps(everything, indent=1) + "\n")


if __name__ == "__main__":
    main()
