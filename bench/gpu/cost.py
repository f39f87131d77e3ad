"""What one planned allocation and free costs beside a hit in PyTorch's own cache, in one process.

    python3 bench/gpu/cost.py --out build/gpu

A step allocates and frees blocks of a few sizes, one at a time: in C++ through PyTorch's allocator, and in
Python through torch.empty. The same steps are timed before STWeaver is there, under a plan, with its session
ended so that all requests are passed on to PyTorch's own allocator, and after it is switched off.
"""

import argparse
import ctypes
import importlib
import json
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

from common import choose, compiled, cuda, disable, figure, stweaver

import torch
from report import table

SIZES = {"512 B": 512, "64 KiB": 1 << 16, "8 MiB": 1 << 23}
ROUNDS = 200
CUDA = 1  # c10/core/DeviceType.h
Times = dict[tuple[str, str], float]  # (caller, size) -> nanoseconds


def build(folder: Path) -> Callable[[int, int, int], float]:
    """Compile cost.cc with the compiler alone and load it."""
    include, libraries = (Path(torch.__file__).parent / name for name in ("include", "lib"))
    options = [f"-isystem{include}", f"-L{libraries}", "-lc10", f"-Wl,-rpath,{libraries}"]
    library = compiled(Path(__file__).with_suffix(".cc"), folder, *options)
    function = ctypes.CDLL(str(library)).allocate_and_free
    function.argtypes = [ctypes.c_int, ctypes.c_size_t, ctypes.c_int]
    function.restype = ctypes.c_double
    result: Callable[[int, int, int], float] = function
    return result


def in_python(size: int) -> float:
    begin = time.perf_counter()
    for _ in range(ROUNDS):
        torch.empty(size, dtype=torch.uint8, device="cuda")
    return (time.perf_counter() - begin) / ROUNDS * 1e9


def step(allocate: Callable[[int, int, int], float]) -> Times:
    """Allocate and free every size through every caller."""
    times: Times = {}
    for name, size in SIZES.items():
        times["C++", name] = allocate(CUDA, size, ROUNDS)
        times["torch.empty", name] = in_python(size)
    if "stweaver" in sys.modules:
        stweaver().mark_step()
    return times


def medians(work: Callable[[], Times], steps: int) -> Times:
    work()
    each = [work() for _ in range(steps)]
    return {key: statistics.median(times[key] for times in each) for key in each[0]}


def plan(work: Callable[[], Times]) -> None:
    """Switch STWeaver on and do steps until all their requests are hits."""
    choose("online", way="wrapper")
    for _ in range(200):
        misses, hits = figure("misses"), figure("hits")
        work()
        if figure("misses") == misses and figure("hits") > hits:
            return
        time.sleep(0.01)
    raise SystemExit(f"200 steps and no plan is followed: {figure('hits')} hits, {figure('misses')} misses")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--out", type=Path, required=True, help="folder for results")
    parser.add_argument("--steps", type=int, default=100)
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    allocate = build(options.out)
    torch.empty(1, device="cuda")
    cuda.synchronize()

    def work() -> Times:
        return step(allocate)

    columns = {"PyTorch": medians(work, options.steps)}
    plan(work)
    hits, misses = figure("hits"), figure("misses")
    columns["planned"] = medians(work, options.steps)
    hits, misses = figure("hits") - hits, figure("misses") - misses
    importlib.import_module("stweaver.session").end()
    columns["passed on"] = medians(work, options.steps)
    disable()
    columns["switched off"] = medians(work, options.steps)

    rows = [[*key, *(f"{times[key]:.0f}" for times in columns.values())] for key in columns["PyTorch"]]
    text = table(("caller", "size", *(f"{name} ns" for name in columns)), rows)
    text += f"\n\nunder the plan: {hits} hits, {misses} misses"
    (options.out / "cost.md").write_text(text + "\n")
    plain = {name: {" ".join(key): value for key, value in times.items()} for name, times in columns.items()}
    (options.out / "cost.json").write_text(json.dumps(plain, indent=1) + "\n")
    print(text)


if __name__ == "__main__":
    main()
