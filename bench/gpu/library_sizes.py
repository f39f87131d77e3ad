"""Record what cuDNN and cuFFT ask for on this GPU: a table for null CUDA (nullcuda/tables).

    python3 bench/gpu/library_sizes.py --out build/gpu              the default clients and the sweep
    python3 bench/gpu/library_sizes.py --out build/gpu diffusers_unet --no-sweep

Programs run with nullcuda/recorder in front of the libraries: the clients of bench/live as it runs them,
whose sizes become the table, and a sweep of recurrent networks, Fourier transforms and convolutions of many
sizes, from which formulas can be fitted (library_sizes-sweep.txt). What this GPU tells programs of itself
comes first: nullcuda/model/gpu.cc has it in a table.
"""

import argparse
import ctypes
import importlib.util
import itertools
import os
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "bench" / "live"))

import run as live  # noqa: E402
from jobs import JOBS, Job  # noqa: E402

CLIENTS = ("diffusers_unet", "mask_rcnn", "lstm", "fourier")
HEADERS = ("cudnn.h", "cufftXt.h", "cuda_runtime_api.h", "crt/host_config.h")
RECORDER = ROOT / "nullcuda" / "recorder" / "recorder.cc"
MIB = 1 << 20
# What gpu.cc has of a device, by the numbers of CUdevice_attribute.
ATTRIBUTES = {
    "capability, major": 75,
    "capability, minor": 76,
    "multiprocessors": 16,
    "L2 cache": 38,
    "shared memory of a multiprocessor": 81,
    "shared memory of a block, opt-in": 97,
    "threads of a multiprocessor": 39,
    "blocks of a multiprocessor": 106,
    "memory bus": 37,
    "memory clock": 36,
    "clock": 13,
    "copy engines": 40,
    "ECC": 32,
    "fabric handles": 128,
    "multicast": 132,
    "registers of a multiprocessor": 82,
    "persisting L2": 108,
}


def main() -> None:
    chosen = arguments()
    if chosen.inside == "device":
        show_device()
        return
    if chosen.inside == "sweep":
        sweep(chosen.seconds)
        return
    chosen.out.mkdir(parents=True, exist_ok=True)
    out = chosen.out.resolve()
    records, swept = out / "library_sizes.txt", out / "library_sizes-sweep.txt"
    for file in (records, swept):
        file.unlink(missing_ok=True)
    subprocess.run([sys.executable, __file__, "--inside", "device"], check=False)
    recorder = build(out, chosen.headers)
    for name in chosen.clients:
        job = next((job for job in JOBS.values() if job.client == name), Job(name))
        run(name, [sys.executable, *job.command], job.steps, recorder, records, chosen.seconds)
    if not chosen.no_sweep:
        inside = [sys.executable, __file__, "--inside", "sweep", "--seconds", str(chosen.seconds)]
        run("sweep", inside, 0, recorder, swept, chosen.seconds + 60)
        print(f"{swept.name}: {summary(swept)}")
    table = write_table(records, out)
    print(f"{table.name}: {summary(table)}")


def arguments() -> argparse.Namespace:
    summary_line, _, details = __doc__.partition("\n")
    parser = argparse.ArgumentParser(
        description=summary_line, epilog=details, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "clients", nargs="*", default=CLIENTS, metavar="CLIENT", help=f"default: {', '.join(CLIENTS)}"
    )
    parser.add_argument("--out", type=Path, default=Path(os.environ.get("OUT", str(ROOT / "build" / "gpu"))))
    parser.add_argument("--seconds", type=int, default=120, help="for a client, and for the sweep")
    parser.add_argument("--no-sweep", action="store_true", help="clients only")
    parser.add_argument("--headers", type=Path, action="append", default=[], help="folder of headers")
    parser.add_argument("--inside", choices=("device", "sweep"), help=argparse.SUPPRESS)
    return parser.parse_args()


# ---- under the recorder ----


def build(out: Path, headers: list[Path]) -> Path:
    """Compile the recorder."""
    library = out / "recorder.so"
    folders = [*headers, *header_folders()]
    includes = [f"-I{folder}" for folder in (ROOT / "nullcuda", *folders)]
    flags = ["-std=c++20", "-O2", "-shared", "-fPIC", "-fvisibility=hidden", "-w"]
    subprocess.run(["g++", *flags, *includes, str(RECORDER), "-o", str(library), "-ldl"], check=True)
    return library


def header_folders() -> list[Path]:
    """Find the folders that have cuDNN's and cuFFT's headers: those of the packages that torch came with."""
    places = [Path(os.environ.get("CUDA_HOME", "/usr/local/cuda")) / "include"]
    found = importlib.util.find_spec("nvidia")
    for place in found.submodule_search_locations or () if found else ():
        places = [*sorted(Path(place).glob("*/include")), *places]
    triton = importlib.util.find_spec("triton")  # has what no package that torch asks for has: crt/
    for place in triton.submodule_search_locations or () if triton else ():
        places.append(Path(place) / "backends" / "nvidia" / "include")
    return [place for place in places if any((place / name).is_file() for name in HEADERS)]


def run(name: str, command: list[str], steps: int, recorder: Path, records: Path, seconds: int) -> None:
    """Run a program under the recorder and say in a line how that went."""
    preloaded = ":".join(filter(None, (str(recorder), os.environ.get("LD_PRELOAD"))))
    log = records.with_name(f"library_sizes-{name}.log")
    variables = os.environ | {
        "LD_PRELOAD": preloaded,
        "NULLCUDA_RECORD": str(records),
        "LIVE_STEPS": str(steps),
        "LIVE_OUT": str(log.with_suffix(".jsonl")),
        "HF_HUB_OFFLINE": "1",
    }
    began = time.monotonic()
    failure = live.execute(command, variables, log, seconds, limited=False)
    print(f"{name}: {time.monotonic() - began:.0f} s, {failure or 'ok'}", flush=True)


def write_table(records: Path, out: Path) -> Path:
    """Write each key once, with what it had last, to the file that null CUDA looks for."""
    last: dict[str, str] = {}
    for line in records.read_text().splitlines() if records.is_file() else ():
        kind, key, sizes = line.split(" ", 2)
        last[f"{kind} {key}"] = sizes
    table = out / table_name()
    table.write_text("".join(f"{key} {sizes}\n" for key, sizes in sorted(last.items())))
    return table


def table_name() -> str:
    """Name the table `h200-cudnn9.19.0.txt`, in a process that ends."""
    code = "import torch; print(torch.cuda.get_device_name(), torch.backends.cudnn.version(), sep='\\n')"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    name, version = done.stdout.splitlines()
    major, rest = divmod(int(version), 10000)
    words = [word for word in name.lower().replace("-", " ").split() if word not in ("nvidia", "geforce")]
    return f"{words[0]}-cudnn{major}.{rest // 100}.{rest % 100}.txt"


def summary(records: Path) -> str:
    """Say how many lines of each kind there are, and how many ask for nothing."""
    lines = [line.split(" ") for line in records.read_text().splitlines()] if records.is_file() else []
    kinds = Counter(line[0] for line in lines)
    empty = Counter(line[0] for line in lines if set(line[2:]) == {"0"})
    return (
        ", ".join(f"{kind} {kinds[kind]} ({empty[kind]} of 0 bytes)" for kind in sorted(kinds)) or "nothing"
    )


# ---- the device ----


def show_device() -> None:
    """Print what gpu.cc has of a GPU."""
    import torch

    cuda: Any = torch.cuda
    cuda.init()
    torch.zeros(1, device="cuda").add_(1)
    cuda.synchronize()
    free, total = cuda.mem_get_info()
    print(cuda.get_device_properties(0))
    print(f"memory: {total}")
    context = total - free - cuda.memory_reserved()
    print(f"context: {context} ({context / MIB:.1f} MiB), with what others use of the device")
    driver = ctypes.CDLL("libcuda.so.1")
    value = ctypes.c_int()
    for what, number in ATTRIBUTES.items():
        error = driver.cuDeviceGetAttribute(ctypes.byref(value), number, 0)
        print(f"{what}: {value.value if error == 0 else f'error {error}'}", flush=True)


# ---- the sweep ----


def sweep(seconds: float) -> None:
    """Run operations of each family in turn until the time is over or there are no more."""
    draw = random.Random(0)
    end = time.monotonic() + seconds
    families = [networks(draw), transforms(draw), convolutions(draw)]
    done = Counter[str]()
    while families and time.monotonic() < end:
        for family in list(families):
            work = next(family, None)
            if work is None:
                families.remove(family)
                continue
            try:
                work()
                done[work.func.__name__] += 1
            except RuntimeError as error:  # a size or a type that a library does not have
                print(f"{work.func.__name__}: {str(error).splitlines()[0]}", flush=True)
    print(dict(done))


def networks(draw: random.Random) -> Iterator[partial[None]]:
    """Recurrent networks: one size at a time, so that each can be told from the others; then at random."""
    import torch

    base: dict[str, Any] = {
        "mode": "LSTM",
        "input": 256,
        "hidden": 512,
        "layers": 2,
        "length": 64,
        "batch": 16,
    }
    ranges: dict[str, tuple[Any, ...]] = {
        "mode": ("LSTM", "GRU", "RNN"),
        "input": (32, 100, 256, 512, 1000, 2048),
        "hidden": (32, 100, 256, 512, 1000, 1024, 2048),
        "layers": (1, 2, 3, 4, 6),
        "length": (1, 7, 33, 64, 128, 256, 512),
        "batch": (1, 4, 13, 16, 32, 64, 128),
        "bidirectional": (False, True),
        "dtype": (torch.float32, torch.bfloat16, torch.float16),
        "training": (True, False),
        "dropout": (0.0, 0.1),
        "bias": (True, False),
        "projection": (0, 64),
    }
    base |= {"bidirectional": False, "dtype": torch.float32, "training": True, "dropout": 0.0}
    base |= {"bias": True, "projection": 0}
    for mode, dtype, training in itertools.product(ranges["mode"], ranges["dtype"], ranges["training"]):
        kind = base | {"mode": mode, "dtype": dtype, "training": training}
        for what, values in ranges.items():
            for value in values:
                yield partial(network, **(kind | {what: value}))
    for _ in range(1000):
        yield partial(network, **{what: draw.choice(values) for what, values in ranges.items()})


def network(
    *,
    mode: str,
    input: int,  # noqa: A002
    hidden: int,
    layers: int,
    length: int,
    batch: int,
    bidirectional: bool,
    dtype: Any,  # noqa: ANN401
    training: bool,
    dropout: float,
    bias: bool,
    projection: int,
) -> None:
    """Run one forward, where the sizes for the backward pass are asked for, too."""
    import torch

    if length * batch * hidden * layers > 1 << 27:
        return
    more = {"proj_size": projection} if mode == "LSTM" and projection < hidden else {}
    made = getattr(torch.nn, mode)(
        input,
        hidden,
        num_layers=layers,
        bidirectional=bidirectional,
        dropout=dropout if layers > 1 else 0.0,
        bias=bias,
        device="cuda",
        dtype=dtype,
        **more,
    ).train(training)
    with torch.set_grad_enabled(training):
        made(torch.randn(length, batch, input, device="cuda", dtype=dtype))


def transforms(draw: random.Random) -> Iterator[partial[None]]:
    """Fourier transforms of one to three dimensions, in random order."""
    lines = (
        *(16, 64, 97, 100, 127, 128, 243, 251, 256, 320, 343, 499, 512, 625, 768, 1000, 1009, 1024, 1155),
        *(1331, 1536, 2000, 2048, 2187, 3000, 4096, 4099, 5000, 8192, 9973, 10000, 16384, 32768, 44100),
        *(65536, 99991, 100000, 1 << 17, 1 << 18, 1000000, 1 << 20),
    )
    planes = (
        *((16, 16), (64, 64), (97, 97), (100, 96), (96, 100), (128, 128), (192, 192), (224, 224), (256, 256)),
        *((251, 64), (64, 251), (320, 320), (500, 300), (512, 512), (480, 640), (1024, 1024), (1000, 1000)),
    )
    cubes = ((16, 16, 16), (32, 32, 32), (20, 30, 40), (64, 64, 64), (31, 32, 33), (128, 64, 32))
    sizes = [*((line,) for line in lines), *planes, *cubes]
    names, batches, dtypes = ("fftn", "rfftn", "irfftn"), (1, 3, 16, 128, 2048), ("float32", "float64")
    every = list(itertools.product(sizes, names, batches, dtypes))
    draw.shuffle(every)
    for one in every:
        yield partial(transform, *one)


def transform(size: tuple[int, ...], name: str, batch: int, dtype: str) -> None:
    """Run one, where it is not too large."""
    import torch

    elements = batch
    for side in size:
        elements *= side
    if elements > 1 << 26:
        return
    real = name == "rfftn"
    shape = (*size[:-1], size[-1] // 2 + 1) if name == "irfftn" else size
    kind = getattr(torch, dtype if real else {"float32": "complex64", "float64": "complex128"}[dtype])
    axes = tuple(range(1, len(size) + 1))
    more = {"s": size} if name == "irfftn" else {}
    getattr(torch.fft, name)(torch.zeros(batch, *shape, device="cuda", dtype=kind), dim=axes, **more)


def convolutions(draw: random.Random) -> Iterator[partial[None]]:
    """Convolutions as in residual networks and UNets, in random order."""
    channels = ((3, 64), (4, 320), (64, 64), (64, 256), (256, 128), (320, 320), (320, 640), (512, 512))
    sides = (7, 8, 14, 16, 28, 32, 56, 64, 112, 224)
    kernels = ((1, 1), (1, 2), (3, 1), (3, 2), (5, 1), (7, 2))  # size and stride
    dtypes, batches = ("float32", "bfloat16", "float16"), (1, 2, 8, 16, 32)
    every = list(itertools.product(channels, sides, kernels, dtypes, batches, (False, True)))
    draw.shuffle(every)
    for one in every[:1500]:
        yield partial(convolution, *one)


def convolution(
    channels: tuple[int, int], side: int, kernel: tuple[int, int], dtype: str, batch: int, channels_last: bool
) -> None:
    """Run one forward and backward, where it is not too large."""
    import torch

    if batch * max(channels) * side * side > 1 << 27:
        return
    layout = torch.channels_last if channels_last else torch.contiguous_format
    where = {"device": "cuda", "dtype": getattr(torch, dtype)}
    size, stride = kernel
    made: Any = torch.nn.Conv2d(*channels, size, stride=stride, padding=size // 2, bias=False, **where)
    made.to(memory_format=layout)
    data = torch.randn(batch, channels[0], side, side, **where).contiguous(memory_format=layout)
    result = made(data.requires_grad_())
    result.backward(torch.ones_like(result))


if __name__ == "__main__":
    main()
