"""Records what PyTorch's caching allocator does under random requests, for recorded_test.cc.

    python record.py FOLDER      # on a machine with a GPU; each recording takes a few seconds

A recording is text: first `settings`, `capacity` (bytes of the device) and `fraction`, then one line per
call. `a SIZE STREAM` allocates (its number is the count of `a` lines before it), `f NUMBER` frees, `e` is
empty_cache. Behind it stands `x` if it ran out of memory, `r BYTES` if the reserve changed, and `s MIB` if a
segment was made: its address, counted from the lowest of the recording. Last, `end` has the allocated and the
requested bytes, the segments, retries and out-of-memory errors, and the peak of the reserve.
"""

import os
import random
import subprocess
import sys
from pathlib import Path

import torch

MIB = 1 << 20
CASES = {  # name: (settings, limit in MiB or None)
    "native": ("", None),
    "native_limit": ("", 1200),
    "split_64": ("max_split_size_mb:64", None),
    "split_32_rounding_48_limit": ("max_split_size_mb:32,max_non_split_rounding_mb:48", 1200),
    "roundup_all": ("roundup_power2_divisions:4", None),
    "roundup_list": ("roundup_power2_divisions:[2:8,4:1,16:4,32:0,>:2]", None),
    "garbage_60_limit": ("garbage_collection_threshold:0.6", 1200),
    "garbage_40_split_64_limit": ("garbage_collection_threshold:0.4,max_split_size_mb:64", 1200),
    "segment_32": ("large_segment_size_mb:32", None),
    "expandable": ("expandable_segments:True", None),
    "expandable_limit": ("expandable_segments:True", 1200),
    "expandable_segment_12": ("expandable_segments:True,large_segment_size_mb:12", None),
    "expandable_garbage_split_limit": (
        "expandable_segments:True,garbage_collection_threshold:0.5,max_split_size_mb:64",
        1200,
    ),
}
CALLS = 1500


def random_size(rng: random.Random, palette: list[int]) -> int:
    """Draw one of a few sizes that come back, or any up to 158 MiB."""
    if rng.random() < 0.6:
        return rng.choice(palette)
    return int(2 ** rng.uniform(5, 27.3))


def segment_addresses() -> list[int | None]:
    """Give, for each allocation so far, the address in MiB of the segment that was made for it, or None."""
    segments: list[int | None] = []
    pending = None
    for event in max(torch.cuda.memory._snapshot()["device_traces"], key=len):
        if event["action"] == "segment_alloc":
            pending = event["addr"] // MIB
        elif event["action"] in ("alloc", "oom"):
            segments.append(pending)
            pending = None
    lowest = min((address for address in segments if address is not None), default=0)
    return [None if address is None else address - lowest for address in segments]


def make_calls(rng: random.Random) -> list[str]:
    """Make the calls, and give a line for each."""
    streams = [torch.cuda.default_stream()] + [torch.cuda.Stream() for _ in range(2)]
    palette = [random_size(rng, [4 * MIB]) for _ in range(30)]
    lines: list[str] = []
    live: list[tuple[int, int]] = []
    count, reserved, goal = 0, 0, 0.0
    for call in range(CALLS):
        if call % 150 == 0:
            goal = rng.uniform(200, 2000) * MIB  # the live bytes that the calls swing around
        if rng.random() < 0.004:
            torch.cuda.empty_cache()
            line = "e"
        elif live and rng.random() < (0.3 if torch.cuda.memory_allocated() < goal else 0.75):
            number, address = live.pop(rng.randrange(len(live)))
            torch.cuda.caching_allocator_delete(address)
            line = f"f {number}"
        else:
            size, stream = random_size(rng, palette), rng.choice([0, 0, 0, 1, 2])
            line = f"a {size} {stream}"
            try:
                live.append((count, torch.cuda.caching_allocator_alloc(size, 0, streams[stream])))
            except torch.OutOfMemoryError:
                line += " x"
            count += 1
        if torch.cuda.memory_reserved() != reserved:
            reserved = torch.cuda.memory_reserved()
            line += f" r {reserved}"
        lines.append(line)
    return lines


def record(name: str, path: Path) -> None:
    """Record one case, in a process whose environment has its settings."""
    settings, limit = CASES[name]
    torch.cuda.memory._record_memory_history(context=None)
    capacity = torch.cuda.get_device_properties(0).total_memory
    fraction = 1.0
    if limit is not None:
        fraction = limit * MIB / capacity
        torch.cuda.set_per_process_memory_fraction(fraction)
    calls = make_calls(random.Random(name))
    segments = iter(segment_addresses())
    for index, line in enumerate(calls):
        if line.startswith("a ") and (segment := next(segments)) is not None:
            calls[index] += f" s {segment}"
    stats = torch.cuda.memory_stats()
    keys = ["allocated_bytes.all.current", "requested_bytes.all.current", "segment.all.current"]
    keys += ["num_alloc_retries", "num_ooms", "reserved_bytes.all.peak"]
    head = [f"settings {settings}", f"capacity {capacity}", f"fraction {fraction!r}"]
    end = "end " + " ".join(str(stats[key]) for key in keys)
    path.write_text("\n".join([*head, *calls, end]) + "\n")


def main() -> None:
    """Record every case in a process of its own, since settings are read when a process begins."""
    folder = Path(sys.argv[1])
    if len(sys.argv) > 2:
        record(sys.argv[2], folder / f"{sys.argv[2]}.txt")
        return
    processes = []
    for name, (settings, _) in CASES.items():
        environment = {**os.environ, "PYTORCH_CUDA_ALLOC_CONF": settings}
        processes.append(subprocess.Popen([sys.executable, __file__, folder, name], env=environment))
    if any(status != 0 for status in [process.wait() for process in processes]):
        sys.exit("a recording failed")


if __name__ == "__main__":
    main()
