"""One check for each of PyTorch's memory features, under whichever allocator is in place.

A check raises when the feature does not work or does not tell the truth, and NotTriedError where it cannot be
tried; what it returns is a remark. Checks of IN_ONE_PROCESS get a job that runs under a plan, and look at
blocks that the plan placed. Those of ALONE get a process of their own, which has not started CUDA.
"""

import importlib
import os
import pickle
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from common import MIB, cuda, disable, driver_used, figure, require, stweaver
from planned_job import PROBE, Job, StreamJob, all_ones, read_late, start

import torch
from report import GIB
from torch import Tensor

LONG = 200_000_000  # cycles: about a tenth of a second


class NotTriedError(Exception):
    """Raised by a check that this machine or allocator has nothing for; it says why."""


# ---- numbers ----


def growth(job: Job, read: Callable[[], int]) -> int:
    """By how much a number grows when the plan's block is allocated."""
    before: list[int] = []
    return job.visit(lambda _: read() - before[-1], lambda: before.append(read()))


def memory_allocated(job: Job) -> None:
    grown = growth(job, cuda.memory_allocated)
    require(grown == PROBE, f"grew by {grown} for {PROBE} bytes")
    between = cuda.memory_allocated()
    job.step()
    require(cuda.memory_allocated() == between, "not the same after a step as before it")
    require(cuda.max_memory_allocated() >= between + PROBE, "max_memory_allocated has not seen the block")


def memory_reserved(job: Job) -> None:
    def look(_: Tensor) -> tuple[int, int, int]:
        return cuda.memory_allocated(), cuda.memory_reserved(), driver_used()

    allocated, reserved, used = job.visit(look)
    require(allocated <= reserved <= used, f"allocated {allocated}, reserved {reserved}, driver {used}")
    require(reserved >= figure("arena"), "the arena is not in it")
    require(cuda.max_memory_reserved() >= reserved, "max_memory_reserved is less")


def memory_stats(job: Job) -> None:
    expected = {
        "allocation.all.current": 1,
        "allocation.all.allocated": 1,
        "requested_bytes.all.current": PROBE,
        "allocated_bytes.all.allocated": PROBE,
        "active_bytes.all.current": PROBE,
    }
    for name, size in expected.items():
        grown = growth(job, lambda name=name: int(cuda.memory_stats()[name]))  # type: ignore[misc]
        require(grown == size, f"{name} grew by {grown}, not {size}")


def memory_summary(job: Job) -> None:
    text = job.visit(lambda _: cuda.memory_summary(abbreviated=True))
    require("Allocated memory" in text and "GPU reserved memory" in text, "no table")


def accelerator_memory(job: Job) -> None:
    accelerator: Any = torch.accelerator
    if not hasattr(accelerator, "memory_allocated"):
        raise NotTriedError("this PyTorch has none yet")
    grown = growth(job, accelerator.memory_allocated)
    require(grown == PROBE, f"grew by {grown} for {PROBE} bytes")


def reset_peak(job: Job) -> None:
    def look(_: Tensor) -> tuple[int, int]:
        torch.empty(64 * MIB, dtype=torch.uint8, device="cuda")
        cuda.reset_peak_memory_stats()
        return cuda.max_memory_allocated(), cuda.memory_allocated()

    peak, now = job.visit(look)
    require(peak == now, f"the peak is {peak} where {now} bytes are allocated")
    cuda.reset_accumulated_memory_stats()
    made = cuda.memory_stats()["allocation.all.allocated"]
    require(made == 0, f"{made} allocations after reset_accumulated_memory_stats")


# ---- snapshots ----


def snapshot(job: Job) -> None:
    def look(probe: Tensor) -> tuple[list[dict[str, Any]], int, int]:
        return cuda.memory_snapshot(), cuda.memory_reserved(), probe.data_ptr()

    segments, reserved, address = job.visit(look)
    total = sum(segment["total_size"] for segment in segments)
    require(total == reserved, f"segments of {total} bytes, {reserved} reserved")
    require(state_at(segments, address) == "active_allocated", "the block is not there or not allocated")


def state_at(segments: list[dict[str, Any]], address: int) -> str:
    """Find the state of the block that begins there."""
    for segment in segments:
        place = segment["address"]
        for block in segment["blocks"]:
            if place == address:
                return str(block["state"])
            place += block["size"]
    return "none"


def history(job: Job) -> None:
    cuda.memory._record_memory_history(stacks="python", max_entries=100_000)
    try:
        address = job.visit(lambda probe: probe.data_ptr())
        entries = cuda.memory._snapshot()["device_traces"][cuda.current_device()]
    finally:
        cuda.memory._record_memory_history(enabled=None)
    actions = {
        entry["action"] for entry in entries if entry.get("addr") == address and entry["size"] >= PROBE
    }
    require({"alloc", "free_completed"} <= actions, f"of the block the history has only {sorted(actions)}")


def memory_viz(job: Job) -> None:
    viz: Any = importlib.import_module("torch.cuda._memory_viz")
    cuda.memory._record_memory_history(stacks="python", max_entries=100_000)
    try:
        job.step()
        path = Path(tempfile.mkdtemp()) / "snapshot.pickle"
        cuda.memory._dump_snapshot(str(path))
    finally:
        cuda.memory._record_memory_history(enabled=None)
    data = pickle.loads(path.read_bytes())
    require(len(data["segments"]) > 0, "no segments")
    for plot in (viz.trace_plot, viz.segment_plot):
        require(len(plot(data)) > 1000, f"{plot.__name__} is empty")


def profiler(job: Job) -> None:
    with torch.profiler.profile(profile_memory=True) as profile:
        address = job.visit(lambda probe: probe.data_ptr())
    made = [getattr(event, "self_device_memory_usage", 0) for event in profile.events() or []]
    largest = max(made, default=0)
    require(address != 0 and PROBE in made, f"no event of {PROBE} bytes; the largest is {largest}")


# ---- memory comes and goes ----


def empty_cache(job: Job) -> None:
    job.step()
    torch.empty(512 * MIB, dtype=torch.uint8, device="cuda")
    cuda.synchronize()
    reserved, used = cuda.memory_reserved(), driver_used()
    cuda.empty_cache()
    require(reserved - cuda.memory_reserved() >= 512 * MIB, "the reserve has not shrunk")
    require(used - driver_used() >= 512 * MIB, "the driver has not got the memory back")
    job.plan()


def memory_fraction(_job: Job) -> None:
    _, total = cuda.mem_get_info()
    cuda.set_per_process_memory_fraction((cuda.memory_reserved() + GIB) / total)
    try:
        expect_out_of_memory(4 * GIB)
    finally:
        cuda.set_per_process_memory_fraction(1.0)
    torch.empty(4 * GIB, dtype=torch.uint8, device="cuda")
    cuda.empty_cache()


def expect_out_of_memory(size: int) -> str:
    try:
        torch.empty(size, dtype=torch.uint8, device="cuda")
    except torch.OutOfMemoryError as error:
        return str(error)
    raise AssertionError(f"{size} bytes were given")


def out_of_memory(job: Job) -> None:
    seen: list[int] = []
    observe: Any = torch._C._cuda_attach_out_of_memory_observer  # type: ignore[attr-defined]
    observe(lambda _device, size, _total, _free: seen.append(size))
    expect_out_of_memory(1 << 41)
    blocks: list[Tensor] = []
    text = ""
    while not text:
        try:
            blocks.append(torch.empty(4 * GIB, dtype=torch.uint8, device="cuda"))
        except torch.OutOfMemoryError as error:
            text = str(error)
    require(len(seen) >= 2, f"the observer was called {len(seen)} times")
    blocks.clear()
    cuda.empty_cache()
    job.plan()
    print(text)  # for the log


def switching(job: Job) -> None:
    """Go out of PyTorch's way and in again while the job runs."""
    if job.way == "default":
        raise NotTriedError("nothing to switch")
    loss = job.step()
    disable()
    job.step()
    stweaver().enable(way=job.way)
    job.plan()
    require(bool(torch.isfinite(loss)), "the loss is not a number")


# ---- streams, graphs, pools, threads ----


def record_stream(_job: Job) -> None:
    side = cuda.Stream()
    reader = torch.zeros(32 * MIB, dtype=torch.uint8, device="cuda")
    outcomes = {}
    for records in (True, False):
        reader.zero_()
        cuda.synchronize()
        read_late(side, LONG, reader, records)
        later = [torch.full_like(reader, 2) for _ in range(3)]
        outcomes[records] = all_ones(reader)
        del later
    require(outcomes[True], "the block was given away while the other stream still read it")
    require(not outcomes[False], "no proof: without record_stream the block was not given away either")


def cuda_graph(job: Job) -> None:
    """Capture in the middle of a planned step, replay between others."""
    weight = torch.randn(512, 512, device="cuda")
    static = torch.zeros(512, 512, device="cuda")

    def work() -> Tensor:
        return (static @ weight).relu() @ weight

    def capture(_: Tensor) -> tuple[Any, Tensor]:
        graph = cuda.CUDAGraph()
        with cuda.graph(graph):
            return graph, work()

    warm = cuda.Stream()
    warm.wait_stream(cuda.current_stream())
    with cuda.stream(warm):
        work()
    cuda.synchronize()
    graph, result = job.visit(capture)
    for _ in range(3):
        static.normal_()
        graph.replay()
        job.step()
        require(torch.allclose(result, work(), rtol=1e-3, atol=1e-2), "a replay computed something else")
    job.plan()


def mem_pool(job: Job) -> None:
    pool = cuda.MemPool()

    def allocate(_: Tensor) -> Tensor:
        with cuda.use_mem_pool(pool):
            return torch.empty(8 * MIB, dtype=torch.uint8, device="cuda")

    block = job.visit(allocate)
    require(state_at(pool.snapshot(), block.data_ptr()) == "active_allocated", "the block is not in the pool")
    del block


def threads(_job: Job) -> str:
    """Use DataParallel's threads, where there are two devices; else threads that share one."""
    model = torch.nn.Linear(256, 256, device="cuda")
    inputs = torch.randn(64, 256, device="cuda")
    if cuda.device_count() > 1:
        both: Any = torch.nn.DataParallel(model, [0, 1])
        for _ in range(20):
            require(torch.allclose(both(inputs), model(inputs), atol=1e-5), "wrong result")
        return "DataParallel on two devices"
    results: list[bool] = []

    def work() -> None:
        with cuda.stream(cuda.Stream()):
            for _ in range(50):
                doubled = torch.full((MIB,), 2.0, device="cuda") * 2
                results.append(float(doubled.sum()) == 4 * MIB)

    workers = [threading.Thread(target=work) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    require(len(results) == 200 and all(results), f"{results.count(True)} of 200 results are right")
    return "four threads on one device"


def cudnn_benchmark(job: Job) -> None:
    layer = torch.nn.Conv2d(16, 32, 3, padding=1, device="cuda")
    inputs = torch.randn(8, 16, 64, 64, device="cuda", requires_grad=True)
    plain = layer(inputs)
    torch.backends.cudnn.benchmark = True
    try:
        tuned = job.visit(lambda _: layer(inputs))
        torch.autograd.backward(tuned.sum())
    finally:
        torch.backends.cudnn.benchmark = False
    require(torch.allclose(plain, tuned, atol=1e-2, rtol=1e-2), "wrong result")


IN_ONE_PROCESS: dict[str, Callable[[Job], str | None]] = {
    "memory_allocated": memory_allocated,
    "memory_reserved": memory_reserved,
    "memory_stats": memory_stats,
    "memory_summary": memory_summary,
    "torch.accelerator.memory_allocated": accelerator_memory,
    "reset_peak_memory_stats": reset_peak,
    "memory_snapshot": snapshot,
    "_record_memory_history": history,
    "_memory_viz": memory_viz,
    "record_stream": record_stream,
    "CUDA graphs": cuda_graph,
    "MemPool": mem_pool,
    "DataParallel, threads": threads,
    "cudnn.benchmark": cudnn_benchmark,
    "torch.profiler with memory": profiler,
    "empty_cache": empty_cache,
    "set_per_process_memory_fraction": memory_fraction,
    "out of memory, and on": out_of_memory,
    "off and on in a running job": switching,
}

# ---- those that need a process of their own ----


def record_stream_planned(way: str, _gpus: int) -> None:
    start(way)
    job = StreamJob(way)
    job.plan()
    job.cycles = LONG
    for _ in range(3):  # the next step begins while the second stream still reads
        job.reader.zero_()
        job.step()
        job.step()
        require(all_ones(job.reader), "a block was given away while the other stream still read it")


def compiled(way: str, _gpus: int) -> None:
    os.environ["TORCHINDUCTOR_COMPILE_THREADS"] = "1"
    start(way)
    job = Job(way)
    job.plan()
    layers = [torch.nn.Linear(64, 64), torch.nn.GELU(), torch.nn.Linear(64, 64)]
    model: Any = torch.nn.Sequential(*layers).cuda()
    fast: Any = torch.compile(model, mode="reduce-overhead")
    inputs = torch.randn(32, 64, device="cuda")
    for _ in range(5):
        torch.compiler.cudagraph_mark_step_begin()
        model.zero_grad()
        result = fast(inputs)
        torch.autograd.backward(result.square().sum())
        require(torch.allclose(result, model(inputs), atol=1e-3), "wrong result")
        job.step()
    utils: Any = importlib.import_module("torch._dynamo.utils")
    skips = utils.counters["inductor"]["cudagraph_skips"]
    require(skips == 0, f"{skips} CUDA graphs were skipped")
    job.plan()


def ipc(way: str, _gpus: int) -> None:
    """Let a second process change a planned block and another one."""
    multiprocessing: Any = importlib.import_module("torch.multiprocessing")
    context = multiprocessing.get_context("fork")
    here, there = context.Pipe()
    reader = context.Process(target=add_one, args=(way, there), daemon=True)
    reader.start()  # before this process starts CUDA
    start(way)
    job = Job(way)
    job.plan()
    loose = torch.zeros(8 * MIB, dtype=torch.uint8, device="cuda")
    change_elsewhere(loose, here)
    job.visit(lambda probe: change_elsewhere(probe, here))
    here.send(None)
    reader.join(10)


def change_elsewhere(tensor: Tensor, connection: Any) -> None:  # noqa: ANN401
    reductions: Any = importlib.import_module("torch.multiprocessing.reductions")
    tensor.fill_(3)
    cuda.synchronize()
    connection.send(reductions.reduce_tensor(tensor))
    require(connection.poll(30), "the other process does not answer")
    require(connection.recv() == 3, "the other process read something else")
    require(int(tensor.min()) == int(tensor.max()) == 4, "what the other process wrote is not here")


def add_one(way: str, connection: Any) -> None:  # noqa: ANN401
    """Serve change_elsewhere() until it sends None. What the wrapper shares only the wrapper can open."""
    start(way)
    while (message := connection.recv()) is not None:
        rebuild, arguments = message
        tensor = rebuild(*arguments)
        read = int(tensor[-1])
        tensor.add_(1)
        cuda.synchronize()
        del tensor
        connection.send(read)


def nccl(way: str, gpus: int) -> str:
    """Sum a planned block over all GPUs, in each of many steps."""
    others = [fork_rank(way, rank, gpus) for rank in range(1, gpus)]
    reduce_in_steps(way, 0, gpus)
    codes = [os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) for process in others]
    require(not any(codes), f"other ranks ended with {codes}")
    return f"{gpus} GPUs" if gpus > 1 else "1 GPU"


def fork_rank(way: str, rank: int, gpus: int) -> int:
    process = os.fork()
    if process != 0:
        return process
    code = 1
    try:
        reduce_in_steps(way, rank, gpus)
        code = 0
    except Exception as error:
        print(f"rank {rank}: {type(error).__name__}: {error}", flush=True)
    finally:
        os._exit(code)


def reduce_in_steps(way: str, rank: int, gpus: int) -> None:
    os.environ |= {"MASTER_ADDR": "localhost", "MASTER_PORT": "29533"}
    start(way)  # first: starting CUDA would be too late for the pluggable way
    cuda.set_device(rank)
    torch.distributed.init_process_group("nccl", rank=rank, world_size=gpus)
    job = Job(way)
    wrong: list[int] = []

    def reduce(probe: Tensor) -> None:
        probe.fill_(rank + 1)
        work: Any = torch.distributed.all_reduce(probe, async_op=True)
        parts = torch.empty(gpus * 1024, dtype=torch.uint8, device="cuda")
        work.wait()
        torch.distributed.all_gather_into_tensor(parts, probe[:1024])
        expected = gpus * (gpus + 1) // 2
        wrong.append(int((probe != expected).sum()) + int((parts != expected).sum()))

    job.look = reduce
    for _ in range(40):  # the same number on every rank
        job.step()
        cuda.synchronize()
    torch.distributed.destroy_process_group()
    require(not any(wrong), f"{sum(map(bool, wrong))} of {len(wrong)} steps got a wrong sum")
    require(job.probe_was_hit or way == "default", "the block was never planned")


def failed_capture(way: str, _gpus: int) -> None:
    """Capture what no graph can hold, and go on without the graph."""
    start(way)
    job = Job(way)
    job.plan()
    try:
        with cuda.graph(cuda.CUDAGraph()):
            torch.ones(1, device="cuda").item()  # waits for the device
    except RuntimeError:
        pass
    else:
        raise AssertionError("the capture did not fail")

    def served() -> int:
        return figure("hits") + figure("misses")

    before = served()
    block = torch.empty(8 * MIB, dtype=torch.uint8, device="cuda").fill_(1)
    require(bool((block == 1).all()), "the block has other content")
    require(way == "default" or served() > before, "STWeaver serves nothing any more")


def switched_off(way: str, _gpus: int) -> None:
    """Let another stream work on blocks of the arena after nothing is served there any more."""
    start(way)
    side = cuda.Stream()
    blocks = [torch.ones(64 * MIB, dtype=torch.uint8, device="cuda") for _ in range(4)]
    reader = torch.zeros_like(blocks[0])
    disable()
    while blocks:
        block = blocks.pop()
        with cuda.stream(side):
            side.wait_stream(cuda.default_stream())
            cuda._sleep(LONG)
            reader.copy_(block)
        block.record_stream(side)
        del block
        torch.full_like(reader, 2)
    require(all_ones(reader), "a block was given away while the other stream still read it")


def other_device(way: str, gpus: int) -> None:
    """Record a block for a stream of another device."""
    if gpus < 2:
        raise NotTriedError("one GPU")
    start(way)
    side = cuda.Stream(device=1)
    block = torch.ones(32 * MIB, dtype=torch.uint8, device="cuda:0")
    address = block.data_ptr()
    with cuda.stream(side):
        cuda._sleep(LONG)
    block.record_stream(side)
    del block
    later = torch.empty(32 * MIB, dtype=torch.uint8, device="cuda:0")
    require(not side.query(), "no proof: the stream was done too early")
    require(later.data_ptr() != address, "the block was given away while the other stream was at work")
    side.synchronize()


def other_device_captured(way: str, gpus: int) -> None:
    """Free a block in the midst of another device's capture, whose stream it is recorded for."""
    if gpus < 2:
        raise NotTriedError("one GPU")
    start(way)
    block, graph = torch.ones(MIB, device="cuda:0"), cuda.CUDAGraph()
    with cuda.device(1):
        numbers = torch.ones(4, device="cuda:1")
        cuda.synchronize()
        with cuda.graph(graph):
            block.record_stream(cuda.current_stream())
            doubled = numbers * 2
            del block
        graph.replay()
    require(doubled.tolist() == [2.0] * 4, "the graph computed something else")


ALONE: dict[str, Callable[[str, int], str | None]] = {
    "record_stream of planned blocks": record_stream_planned,
    "record_stream after it is off": switched_off,
    "record_stream of another device": other_device,
    "record_stream of another device, captured": other_device_captured,
    "IPC between processes": ipc,
    "NCCL collectives": nccl,
    "a capture that fails": failed_capture,
    'torch.compile("reduce-overhead")': compiled,
}
