"""What matrix products a GPU sustains: TFLOP/s in bf16 and fp8 once it has run them for a while.

python3 bench/gpu/products.py [--seconds 8]
python3 bench/gpu/products.py --experts [--seconds 2]
python3 bench/gpu/products.py --streaming [--seconds 2]

Data sheets print a rate at the boost clock; products draw more power than the GPU may use at that clock, so
that it falls, and they take longer. The advisor counts with what is sustained (src/advise/cluster.cc).

--experts: what the products of experts reach, one expert after another, as a share of a large product's rate.
The depth is what would explain it, if a product of depth k took 1 + depth / k times its work.

--streaming: what operators between products reach of the memory's bandwidth, compiled.
"""

import argparse
import subprocess
import time
from collections.abc import Callable

import torch

# Tokens of a micro-batch, and outputs and inputs of layers.
SHAPES = [(8192, 8192, 8192), (16384, 14336, 4096), (16384, 4096, 14336), (4096, 8192, 28672)]

# Hidden units and those of an expert: qwen3_30b_a3b, gpt_oss, qwen3_235b_a22b, deepseek_v3, mixtral_8x7b.
EXPERTS = [(2048, 768), (2880, 2880), (4096, 1536), (7168, 2048), (4096, 14336)]
TOKENS = (512, 2048, 8192)  # that an expert gets
RANK = 4  # experts one after another

Product = Callable[[], object]


def bf16(rows: int, columns: int, depth: int) -> Product:
    """Make a product of normal numbers, as those of training are: zeros would draw less power."""
    left = torch.randn(rows, depth, device="cuda", dtype=torch.bfloat16)
    right = torch.randn(columns, depth, device="cuda", dtype=torch.bfloat16).t()
    return lambda: left @ right


def fp8(rows: int, columns: int, depth: int) -> Product:
    """Make a product with one scale for each operand, with a bf16 result."""
    one = torch.ones((), device="cuda")
    left = torch.randn(rows, depth, device="cuda").to(torch.float8_e4m3fn)
    right = torch.randn(columns, depth, device="cuda").to(torch.float8_e4m3fn).t()
    return lambda: torch._scaled_mm(left, right, one, one, out_dtype=torch.bfloat16, use_fast_accum=True)


def sustained(product: Product, flops: float, seconds: float) -> str:
    """TFLOP/s over the second half of so many seconds, and the power and clock at its end, as cells."""
    product()
    torch.cuda.synchronize()
    began = time.perf_counter()
    product()
    torch.cuda.synchronize()
    half = max(1, int(seconds / 2 / (time.perf_counter() - began)))
    for _ in range(half):
        product()
    first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    first.record()
    for _ in range(half):
        product()
    last.record()
    now = state()  # the GPU is still busy: the host is far ahead of it
    last.synchronize()
    return f"{half * flops / first.elapsed_time(last) / 1e9:.0f} | {now}"


def state() -> str:
    """Watts and MHz of the first GPU."""
    query = ["nvidia-smi", "-i", "0", "--query-gpu=power.draw,clocks.sm", "--format=csv,noheader"]
    return subprocess.run(query, check=False, capture_output=True, text=True).stdout.strip()


def products_of_expert(hidden: int, ffn: int, tokens: int) -> list[tuple[int, int, int]]:
    """Rows, columns and depth of a gated expert's six: forward, towards its inputs and its weights."""
    first, second = (tokens, 2 * ffn, hidden), (tokens, hidden, ffn)
    return [
        shape
        for rows, columns, depth in (first, second)
        for shape in ((rows, columns, depth), (rows, depth, columns), (columns, depth, rows))
    ]


def repeated(products: list[Product]) -> Product:
    """Have them run one after another, without the host."""
    for product in products:
        product()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for product in products:
            product()
    return graph.replay


def rate(
    make: Callable[[int, int, int], Product], shapes: list[tuple[int, int, int]], seconds: float
) -> float:
    """TFLOP/s of so many products of each shape."""
    flops = RANK * sum(2.0 * rows * columns * depth for rows, columns, depth in shapes)
    products = [make(*shape) for _ in range(RANK) for shape in shapes]
    return float(sustained(repeated(products), flops, seconds).split(" ", 1)[0])


def print_experts(seconds: float) -> None:
    """Print a table of shares, and of the depth that each stands for."""
    print("| hidden | expert | tokens | bf16 | depth | fp8 | depth |\n|---|---|---|---|---|---|---|")
    large = {make: rate(make, SHAPES[:1], 2 * seconds) for make in (bf16, fp8)}
    for hidden, ffn in EXPERTS:
        for tokens in TOKENS:
            shapes = products_of_expert(hidden, ffn, tokens)
            work = sum(rows * columns * depth for rows, columns, depth in shapes)
            shallow = sum(rows * columns for rows, columns, _ in shapes) / work  # mean of 1 / depth
            cells = []
            for make in (bf16, fp8):
                share = rate(make, shapes, seconds) / large[make]
                cells.append(f"{share:.2f} | {(1 / share - 1) / shallow:.0f}")
            print(f"| {hidden} | {ffn} | {tokens} | {' | '.join(cells)} |", flush=True)


def norm(tokens: int, width: int) -> tuple[Product, int]:
    """Make an RMSNorm, and say how many elements it reads and writes."""
    x = torch.randn(tokens, width, device="cuda", dtype=torch.bfloat16)
    weight = torch.ones(width, device="cuda", dtype=torch.bfloat16)
    compiled = torch.compile(torch.nn.functional.rms_norm, dynamic=False)
    return lambda: compiled(x, (width,), weight), 2 * x.numel()


def gate(tokens: int, width: int) -> tuple[Product, int]:
    """Make what lies between the products of a gated MLP."""
    both = torch.randn(tokens, 2 * width, device="cuda", dtype=torch.bfloat16)

    @torch.compile(dynamic=False)
    def gated(both: torch.Tensor) -> torch.Tensor:
        up, down = both.chunk(2, -1)
        return torch.nn.functional.silu(up) * down

    return lambda: gated(both), 3 * tokens * width


def residual(tokens: int, width: int) -> tuple[Product, int]:
    """Make the sum round a branch."""
    x, y = torch.randn(2, tokens, width, device="cuda", dtype=torch.bfloat16)
    return lambda: x + y, 3 * x.numel()


def permutation(tokens: int, width: int) -> tuple[Product, int]:
    """Make tokens in the order of their experts."""
    x = torch.randn(tokens, width, device="cuda", dtype=torch.bfloat16)
    order = torch.randperm(tokens, device="cuda")
    return lambda: x[order], 2 * x.numel()


def print_streaming(seconds: float) -> None:
    """Print a table of GB/s."""
    print("| operator | tokens | width | GB/s |\n|---|---|---|---|")
    for make in (norm, gate, residual, permutation):
        for tokens, width in ((8192, 4096), (8192, 14336), (32768, 8192)):
            run, elements = make(tokens, width)
            cell = sustained(repeated([run] * RANK), RANK * elements * 2 * 1e3, seconds).split(" ", 1)[0]
            print(f"| {make.__name__} | {tokens} | {width} | {cell} |", flush=True)


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=8, help="of each shape and precision")
    parser.add_argument("--experts", action="store_true", help="products of experts instead")
    parser.add_argument("--streaming", action="store_true", help="operators between products instead")
    options = parser.parse_args()
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}\n")
    if options.experts:
        return print_experts(options.seconds)
    if options.streaming:
        return print_streaming(options.seconds)
    print("| product | bf16 | power, clock | fp8 | power, clock |")
    print("|---|---|---|---|---|")
    for shape in SHAPES:
        rows, columns, depth = shape
        flops = 2.0 * rows * columns * depth
        cells = [sustained(make(*shape), flops, options.seconds) for make in (bf16, fp8)]
        print(f"| {rows} x {columns} x {depth} | {' | '.join(cells)} |")
    return None


if __name__ == "__main__":
    main()
