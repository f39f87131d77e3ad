#!/usr/bin/env python3
"""Make the fixtures beside this file, with Python's own pickle.

every_field_N.pickle holds the same snapshot in protocol N, with every field that torch 2.13 writes: two
devices, shared frames, pools, expandable segments, annotations, metadata. What must come out of it stands in
snapshot_test.cc.
"""

import pickle
from pathlib import Path
from typing import Any

Pool = tuple[int, int]
Frames = list[dict[str, Any]]

FRAMES = [{"filename": f"layer_{i}.py", "line": i, "name": f"forward_{i}"} for i in range(4)]
SHARED_STACK = [FRAMES[0], FRAMES[1]]
MIB = 1 << 20


def entry(
    action: str,
    addr: int,
    size: int,
    time_us: int,
    *,
    stream: int = 0,
    metadata: str = "",
    pool: Pool = (0, 0),
    stack: Frames = SHARED_STACK,
) -> dict[str, Any]:
    return {
        "action": action,
        "device_free" if action == "oom" else "addr": addr,
        "size": size,
        "stream": stream,
        "time_us": time_us,
        "compile_context": "".join(["N", "/A"]),  # a string of its own, as torch makes one per entry
        "user_metadata": "".join(metadata),
        "pool_id": tuple(pool),
        "frames": list(stack),
    }


def block(address: int, size: int, requested: int, state: str) -> dict[str, Any]:
    return {
        "address": address,
        "size": size,
        "requested_size": requested,
        "state": state,
        "frames": SHARED_STACK,
    }


def segment(
    device: int,
    address: int,
    size: int,
    blocks: list[dict[str, Any]],
    *,
    stream: int = 0,
    pool: Pool = (0, 0),
    expandable: bool = False,
) -> dict[str, Any]:
    return {
        "device": device,
        "address": address,
        "total_size": size,
        "allocated_size": 0,
        "active_size": 0,
        "requested_size": 0,
        "stream": stream,
        "segment_type": "large",
        "segment_pool_id": pool,
        "is_expandable": expandable,
        "frames": [],
        "blocks": blocks,
    }


BASE = 0x7F00_0000_0000
SIDE_STREAM = 0x5581_2345_6780

SNAPSHOT: dict[str, Any] = {
    "segments": [
        segment(
            0,
            BASE,
            20 * MIB,
            [
                block(BASE, 1024, 1000, "active_allocated"),  # alive before recording, never freed
                block(BASE + 1024, 512, 500, "active_pending_free"),
                block(BASE + 1536, 20 * MIB - 1536, 0, "inactive"),
            ],
        ),
        segment(
            0, BASE + 64 * MIB, 2 * MIB, [block(BASE + 64 * MIB, 512, 300, "active_allocated")], pool=(0, 7)
        ),
        segment(
            1, BASE, 4 * MIB, [block(BASE, 512, 256, "active_allocated")], stream=SIDE_STREAM, expandable=True
        ),
    ],
    "device_traces": [
        [
            entry("free_requested", BASE + 2048, 700, 10),  # its allocation fell out of the ring buffer
            entry("free_completed", BASE + 2048, 700, 11),
            entry("segment_alloc", BASE + 64 * MIB, 2 * MIB, 12, pool=(0, 7)),
            entry("alloc", BASE + 64 * MIB, 300, 13, pool=(0, 7)),
            entry("alloc", BASE + 4096, 5000, 14, metadata="step 1", stack=FRAMES[2:]),
            entry("free_requested", BASE + 4096, 5000, 20, metadata="step 1"),
            entry("alloc", BASE + 16384, 6000, 21, metadata="step 1", stream=SIDE_STREAM),
            # Another stream used it until here.
            entry("free_completed", BASE + 4096, 5000, 22, metadata="step 2"),
            entry("oom", 123456, 9 << 30, 23, metadata="step 2"),
            entry("free_requested", BASE + 16384, 6000, 24, metadata="step 2"),
            entry("free_completed", BASE + 16384, 6000, 25, metadata="step 2"),
            entry("segment_free", BASE + 128 * MIB, 8 * MIB, 26),
            entry("snapshot", 0, 0, 27),
        ],
        [
            entry("segment_map", BASE, 4 * MIB, 15, stream=SIDE_STREAM),
            entry("alloc", BASE, 256, 16, stream=SIDE_STREAM),
            entry("segment_map", BASE + 4 * MIB, 2 * MIB, 17, stream=SIDE_STREAM),
            entry("segment_unmap", BASE + 4 * MIB, 2 * MIB, 18, stream=SIDE_STREAM),
        ],
        [],
    ],
    "allocator_settings": {
        "PYTORCH_CUDA_ALLOC_CONF": "max_split_size_mb:64",
        "max_split_size": 64 * MIB,
        "garbage_collection_threshold": 0.5,
        "expandable_segments": True,
        "roundup_power2_divisions": {"1": 0, "32768": 0},
    },
    "external_annotations": [
        {"name": "closed before", "stage": "START", "device": 0, "time_us": 1},
        {"name": "still open", "stage": "START", "device": 0, "time_us": 2},
        {"name": "closed before", "stage": "END", "device": 0, "time_us": 3},
        {"name": "ProfilerStep#3", "stage": "START", "device": 0, "time_us": 14},
        {"name": "ProfilerStep#3", "stage": "END", "device": 0, "time_us": 22},
        {"name": "of the other device", "stage": "START", "device": 1, "time_us": 16},
        {"name": "after all", "stage": "START", "device": 0, "time_us": 99},
    ],
    "something new": {
        "unknown": [1.5, b"bytes", bytearray(b"x"), {1, 2}, frozenset([3]), None, True, 1 << 70, (1,) * 5]
    },
}


def main() -> None:
    for protocol in range(2, 6):
        snapshot = dict(SNAPSHOT)
        if protocol < 4:  # sets, bytes and bytearrays of these protocols are made by calls
            snapshot["something new"] = {"unknown": [1.5, None, True, 1 << 70, (1,) * 5]}
        elif protocol < 5:
            unknown = [1.5, b"bytes", {1, 2}, frozenset([3]), None, 1 << 70, (1,) * 5]
            snapshot["something new"] = {"unknown": unknown}
        Path(__file__).with_name(f"every_field_{protocol}.pickle").write_bytes(
            pickle.dumps(snapshot, protocol)
        )


if __name__ == "__main__":
    main()
