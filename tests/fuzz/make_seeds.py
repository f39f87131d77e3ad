#!/usr/bin/env python3
"""Make seeds for the fuzzers from the real examples.

    python3 make_seeds.py EXAMPLES OUT

OUT/pickle gets the last events of each snapshot, as a full ring buffer would have kept them, in every
protocol; OUT/csv the first lines of each planning instance, and the same with the bad numbers that a reader
must refuse.
"""

import lzma
import pickle
import sys
from pathlib import Path
from typing import Any

EVENTS = 200
SEGMENTS = 12
FRAMES = [{"filename": f"layer_{i}.py", "line": i, "name": f"forward_{i}"} for i in range(8)]


def cut(snapshot: dict[str, Any], with_frames: bool) -> dict[str, Any]:
    """Keep the last events of a snapshot, the segments they touch, and a few markers."""
    entries = snapshot["device_traces"][0][-EVENTS:]
    addresses = [entry["addr"] for entry in entries if "addr" in entry]

    def touched(segment: dict[str, Any]) -> bool:
        end = segment["address"] + segment["total_size"]
        return any(segment["address"] <= address < end for address in addresses)

    segments = [segment for segment in snapshot["segments"] if touched(segment)][:SEGMENTS]
    small = {
        "segments": segments,
        "device_traces": [entries, []],
        "allocator_settings": snapshot.get("allocator_settings", {}),
        "external_annotations": [
            {"name": "ProfilerStep#1", "stage": stage, "device": 0, "time_us": entries[i]["time_us"]}
            for stage, i in (("START", 10), ("END", 90))
        ],
        "markers": [(0, 0, "iteration 0"), (20, 20, "iteration 1"), (40, 40, "end")],
    }
    if with_frames:
        for i, holder in enumerate(entries + segments + [b for s in segments for b in s["blocks"]]):
            holder["frames"] = FRAMES[i % 3 : i % 3 + 5]
            holder["user_metadata"] = f"step {i // 50}"
            holder["pool_id"] = (0, i // 150)
    return small


def write_pickles(examples: Path, out: Path) -> None:
    out.mkdir(parents=True, exist_ok=True)
    for number, path in enumerate(sorted(examples.glob("traces/*.pickle.xz"))):
        with lzma.open(path) as file:
            snapshot = pickle.load(file)
        protocol = 2 + number % 4
        small = cut(snapshot, with_frames=number % 2 == 1)
        name = path.name.removesuffix(".pickle.xz")
        (out / f"{name}_{protocol}.pickle").write_bytes(pickle.dumps(small, protocol))


def write_tables(out: Path) -> None:
    out.mkdir(parents=True, exist_ok=True)
    for lines in (0, 1, 8, 40):
        births = [7 * line % 31 for line in range(lines)]
        rows = [f"{line},{birth},{birth + line + 1},{64 << line % 20}" for line, birth in enumerate(births)]
        (out / f"good_{lines}.csv").write_text("\n".join(["id,lower,upper,size", *rows]) + "\n")
    bad = [
        "x,-1,2,3,0",
        "x,5,2,3,0",
        "x,1,2,99999999999999999999,0",
        "x,1,2,9223372036854775807,1",
        "x,1,2",
        ",,,,",
    ]
    for number, line in enumerate(bad):
        (out / f"bad_{number}.csv").write_text(f"id,lower,upper,size,offset\r\n0,0,9,64,0\r\n{line}\r\n")


def main() -> None:
    examples, out = Path(sys.argv[1]), Path(sys.argv[2])
    write_pickles(examples, out / "pickle")
    write_tables(out / "csv")


if __name__ == "__main__":
    main()
