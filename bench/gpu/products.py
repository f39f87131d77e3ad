"""What matrix products a GPU sustains: TFLOP/s in bf16 and fp8 once it has run them for a while.

python3 bench/gpu/products.py [--seconds 8]

Data sheets print a rate at the boost clock; products draw more power than the GPU may use at that clock, so
that it falls, and they take longer. The advisor counts with what is sustained (src/advise/cluster.cc).
"""

import argparse
import subprocess
import time
from collections.abc import Callable

import torch

# Tokens of a micro-batch, and outputs and inputs of layers.
SHAPES = [(8192, 8192, 8192), (16384, 14336, 4096), (16384, 4096, 14336), (4096, 8192, 28672)]


def bf16(rows: int, columns: int, depth: int) -> Callable[[], object]:
    """Make a product of normal numbers, as those of training are: zeros would draw less power."""
    left = torch.randn(rows, depth, device="cuda", dtype=torch.bfloat16)
    right = torch.randn(columns, depth, device="cuda", dtype=torch.bfloat16).t()
    return lambda: left @ right


def fp8(rows: int, columns: int, depth: int) -> Callable[[], object]:
    """Make a product with one scale for each operand, with a bf16 result."""
    one = torch.ones((), device="cuda")
    left = torch.randn(rows, depth, device="cuda").to(torch.float8_e4m3fn)
    right = torch.randn(columns, depth, device="cuda").to(torch.float8_e4m3fn).t()
    return lambda: torch._scaled_mm(left, right, one, one, out_dtype=torch.bfloat16, use_fast_accum=True)


def sustained(product: Callable[[], object], flops: float, seconds: float) -> str:
    """TFLOP/s over the second half of so many seconds, and the power and clock at its end, as cells."""
    product()
    torch.cuda.synchronize()
    began = time.perf_counter()
    product()
    torch.cuda.synchronize()
    half = max(1, int(seconds / 2 / (time.perf_counter() - began)))
    for _ in range(half):
        product()
    torch.cuda.synchronize()
    began = time.perf_counter()
    for _ in range(half):
        product()
    now = state()  # the GPU is still busy: the host is far ahead of it
    torch.cuda.synchronize()
    return f"{half * flops / (time.perf_counter() - began) / 1e12:.0f} | {now}"


def state() -> str:
    """Watts and MHz of the first GPU."""
    query = ["nvidia-smi", "-i", "0", "--query-gpu=power.draw,clocks.sm", "--format=csv,noheader"]
    return subprocess.run(query, check=False, capture_output=True, text=True).stdout.strip()


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=8, help="of each shape and precision")
    options = parser.parse_args()
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}\n")
    print("| product | bf16 | power, clock | fp8 | power, clock |")
    print("|---|---|---|---|---|")
    for shape in SHAPES:
        rows, columns, depth = shape
        flops = 2.0 * rows * columns * depth
        cells = [sustained(make(*shape), flops, options.seconds) for make in (bf16, fp8)]
        print(f"| {rows} x {columns} x {depth} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
