"""Serve the example jobs from real GPU memory, each block stamped whole and verified before it is freed.

    python3 bench/gpu/replay.py [--build build/release] TRACE...

Needs a CUDA GPU with enough memory for the jobs, and the build (`tools/build.sh release`), which may come
from another machine. Runs the device tests first: what follows stands on them. Prints, per job and
allocator: reserved, efficiency, hits, misses, corrupt blocks, and nanoseconds per allocation or free; then
bench/runtime, the same cost without a GPU in the way.
"""

import argparse
import json
import subprocess
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1] / "live"))
from report import GIB

ALLOCATORS = {
    "stweaver": [],
    "online": ["--online"],
    "native": ["--allocator", "native"],
    "expandable": ["--allocator", "expandable"],
}


def replay(command: Path, trace: str, options: list[str]) -> dict[str, object] | None:
    run = subprocess.run(
        [command, "replay", trace, "--device", "cuda", "--json", *options], capture_output=True, text=True
    )
    if not run.stdout:
        print(run.stderr.strip(), file=sys.stderr)
        return None
    answer: dict[str, object] = json.loads(run.stdout)
    return answer


def row(job: str, name: str, answer: dict[str, object] | None) -> str:
    if answer is None:
        return f"{job:<20}{name:<12} failed"
    figures = {key: float(str(answer[key])) for key in ("reserved_peak", "efficiency", "ns_per_event")}
    return (
        f"{job:<20}{name:<12}{figures['reserved_peak'] / GIB:>9.2f}{100 * figures['efficiency']:>9.2f} %"
        f"{answer['hits']:>9}{answer['misses']:>9}{answer['corrupt_blocks']:>9}{figures['ns_per_event']:>11.0f}"
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--build", type=Path, default=Path("build/release"))
    parser.add_argument("traces", nargs="+")
    options = parser.parse_args()

    tests = subprocess.run([options.build / "tests" / "device_test", "--gtest_brief=1"])
    head = f"{'job':<20}{'allocator':<12}{'GiB':>9}{'efficiency':>11}{'hits':>9}{'misses':>9}{'corrupt':>9}"
    print(f"\n{head}{'ns/event':>11}")
    bad = tests.returncode != 0
    for trace in options.traces:
        for name, arguments in ALLOCATORS.items():
            answer = replay(options.build / "stweaver", trace, arguments)
            bad = bad or answer is None or answer["corrupt_blocks"] != 0
            print(row(Path(trace).name.split(".")[0], name, answer), flush=True)
    print()
    subprocess.run([options.build / "bench" / "runtime"], check=True)
    return int(bad)


if __name__ == "__main__":
    sys.exit(main())
