"""Calls that PyTorch does not make, or not every day: what driver 580 answered to them on an H200."""

from typing import Any

import pytest
from programs import needs_torch, run

pytestmark = needs_torch

CALLS = """
from ctypes import CFUNCTYPE, addressof, byref, create_string_buffer
from ctypes import c_char_p, c_int, c_size_t, c_uint, c_void_p

def call(name, *arguments):
    "Call a function of CUDA: pointers, sizes and flags are numbers."
    return getattr(core, name)(*(c_size_t(a) if isinstance(a, int) else a for a in arguments))

def made(name, *arguments):
    "Call one that writes a handle or an address to its first argument, and return that."
    handle = c_size_t()
    assert call(name, byref(handle), *arguments) == 0, name
    return handle.value
"""


def calls(program: str, *options: str) -> Any:  # noqa: ANN401
    return run(CALLS + program, *options)


def test_memory_is_freed_as_it_was_made() -> None:
    found = calls("""
torch.cuda.init()
own = create_string_buffer(65536)
at = addressof(own)
pinned, nothing = made("cudaHostAlloc", 8192, 0), made("cudaHostAlloc", 0, 0)
managed = made("cudaMallocManaged", 99, 1)
block, ordered = made("cudaMalloc", 4 << 20), made("cudaMallocAsync", 4 << 20, 0)
say(
    nothing=nothing,
    pinned=[call("cudaHostRegister", pinned + 100, 10, 0), call("cudaHostUnregister", pinned),
            call("cudaFree", pinned), call("cudaFreeHost", pinned), call("cudaFreeHost", pinned)],
    registered=[call("cudaHostRegister", at, 8192, 0), call("cudaHostRegister", at + 4000, 8192, 0),
                call("cudaHostRegister", at + 30000, 0, 0), call("cudaFreeHost", at),
                call("cudaHostUnregister", at), call("cudaHostUnregister", at)],
    managed=[call("cudaFreeHost", managed), call("cudaFree", managed), call("cudaFree", managed)],
    block=[call("cudaFree", block + 512), call("cudaFree", block), call("cudaFree", block)],
    ordered=[call("cudaFreeAsync", ordered + 512, 0), call("cudaFreeAsync", ordered, 0),
             call("cudaFreeAsync", ordered, 0)],
)
""")
    assert found == {
        "nothing": 0, "pinned": [1, 1, 1, 0, 1], "registered": [0, 712, 1, 1, 0, 713], "managed": [1, 0, 1],
        "block": [1, 0, 1], "ordered": [1, 0, 1],
    }  # fmt: skip


def test_a_pointer_is_what_it_points_to() -> None:
    found = calls("""
def kind(address):
    attributes = (c_int * 64)()
    assert call("cudaPointerGetAttributes", attributes, address) == 0
    return list(attributes[:2])
torch.cuda.init()
block, pinned = made("cudaMalloc", 4 << 20), made("cudaHostAlloc", 8, 0)
managed = made("cudaMallocManaged", 8, 1)
kinds = [kind(block), kind(pinned), kind(managed), kind(id(core))]
call("cudaFree", block)
seen = [call("cudaHostGetDevicePointer", byref(c_size_t()), host, 0) for host in (pinned, id(core))]
say(kinds=kinds, freed=kind(block), seen=seen)
""")
    assert found == {"kinds": [[2, 0], [1, 0], [3, 0], [0, -2]], "freed": [0, -2], "seen": [0, 1]}


def test_what_is_offloaded_takes_no_memory_of_the_host() -> None:
    found = calls("""
import resource
activations = torch.empty(64 << 30, dtype=torch.uint8, device="cuda")
kept = torch.empty(activations.shape, dtype=torch.uint8, pin_memory=True)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
for _ in range(2):
    kept.copy_(activations, non_blocking=True)
say(grown=(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) >> 10, last=int(kept[-1]))
""")
    assert found["grown"] < 100  # MiB
    assert found["last"] == 0


def test_an_error_is_called_what_the_driver_calls_it() -> None:
    found = calls("""
core.cudaGetErrorName.restype = core.cudaGetErrorString.restype = c_char_p
errors = (1, 98, 712, 713, 902, 905, 906, 907, 908, 12345)
text = c_char_p()
say(names=[core.cudaGetErrorName(error).decode() for error in errors],
    text=core.cudaGetErrorString(906).decode(), unknown=call("cuGetErrorString", 12345, byref(text)))
""")
    assert found["names"] == [
        "cudaErrorInvalidValue", "cudaErrorInvalidDeviceFunction", "cudaErrorHostMemoryAlreadyRegistered",
        "cudaErrorHostMemoryNotRegistered", "cudaErrorStreamCaptureMerge", "cudaErrorStreamCaptureIsolation",
        "cudaErrorStreamCaptureImplicit", "cudaErrorCapturedEvent", "cudaErrorStreamCaptureWrongThread",
        "unrecognized error code",
    ]  # fmt: skip
    assert found["text"] == "operation would make the legacy stream depend on a capturing blocking stream"
    assert found["unknown"] == 1


def test_access_to_memory_is_a_devices() -> None:
    found = calls(
        """
torch.cuda.init()
def access(device):
    flags = c_size_t()
    return call("cuMemGetAccess", byref(flags), (c_int * 2)(1, device), place) or flags.value
def set_access(device, flags):
    return call("cuMemSetAccess", place, 2 << 20, (c_int * 3)(1, device, flags), 1)
place = made("cuMemAddressReserve", 2 << 20, 0, 0, 0)
handle = made("cuMemCreate", 2 << 20, (c_int * 8)(1, 0, 1, 1), 0)
flags = [call("cuMemAddressReserve", byref(c_size_t()), 2 << 20, 0, 0, 1),
         call("cuMemMap", place, 2 << 20, 0, handle, 1)]
call("cuMemMap", place, 2 << 20, 0, handle, 0)
device = c_int()
call("cuPointerGetAttribute", byref(device), 9, place)
say(flags=flags, device=device.value, set=[set_access(1, 3), set_access(0, 0), set_access(9, 3)],
    access=[access(0), access(1)], closed=call("cudaIpcCloseMemHandle", made("cudaMalloc", 8)))
""",
        *("--devices", "2"),
    )
    assert found == {"flags": [1, 1], "device": 1, "set": [0, 0, 101], "access": [0, 3], "closed": 1}


def test_a_handle_that_is_none_is_refused() -> None:
    found = calls("""
torch.cuda.init()
room = create_string_buffer(256)
say(
    properties=call("cuMemGetAllocationPropertiesFromHandle", room, 12345),
    exported=call("cuMemExportToShareableHandle", room, 12345, 1, 0),
    created=[call("cuMemCreate", room, 2 << 20, (c_int * 16)(0, 1, 1, 0), 0),
             call("cuMemCreate", room, 2 << 20, (c_int * 16)(1, 1, 1, 0), 1)],
    launched=call("cudaGraphLaunch", 12345, 0), destroyed=call("cudaGraphDestroy", 12345),
    context=call("cuCtxDestroy_v2", 12345),
)
""")
    assert found == {
        "properties": 1, "exported": 1, "created": [1, 1], "launched": 1, "destroyed": 1, "context": 201,
    }  # fmt: skip


def test_graphs_that_were_not_captured() -> None:
    found = calls("""
torch.cuda.init()
graph = made("cudaGraphCreate", 0)
room = create_string_buffer(64)
whole = [made("cudaGraphInstantiate", graph, 0), made("cudaGraphInstantiateWithParams", graph, room),
         made("cuGraphInstantiateWithFlags", made("cuGraphCreate", 0), 0)]
say(launched=[call("cudaGraphLaunch", one, 0) for one in whole],
    destroyed=[call("cudaGraphExecDestroy", one) for one in whole] + [call("cudaGraphDestroy", graph)])
""")
    assert found == {"launched": [0, 0, 0], "destroyed": [0, 0, 0, 0]}


def test_contexts_and_devices() -> None:
    found = calls(
        """
def active(device):
    flags, state = c_uint(), c_int()
    return call("cuDevicePrimaryCtxGetState", device, byref(flags), byref(state)) or -state.value
def created(version):
    "A context by the form of cuCtxCreate that programs built for a version of CUDA ask for."
    form, context, device = c_void_p(), c_void_p(), c_int()
    assert call("cuGetProcAddress_v2", b"cuCtxCreate", byref(form), version, 0, None) == 0
    between = {11000: [], 12000: [c_void_p, c_int], 13000: [c_void_p]}[version]
    create = CFUNCTYPE(c_int, c_void_p, *between, c_uint, c_int)(form.value)
    assert create(byref(context), *(0 for _ in between), 0, 1) == 0
    assert call("cuCtxGetDevice", byref(device)) == 0
    return [device.value, call("cuCtxDestroy_v2", context), call("cuCtxDestroy_v2", context)]
def attribute(number):
    value = c_int()
    return call("cuDeviceGetAttribute", byref(value), number, 1) or value.value
states = [active(0), active(1), active(9)]
torch.zeros(1, device="cuda:0")
states += [active(0), active(1)]
say(states=states, contexts=[created(version) for version in (11000, 12000, 13000)],
    peers=[call("cudaDeviceEnablePeerAccess", peer, 0) for peer in (1, 1, 0, 9)],
    # What the run time's properties have: alignments, the L2's window, handle types, clusters, the bus.
    attributes=[attribute(number) for number in (14, 30, 51, 109, 119, 120, 33)])
""",
        "--devices",
        "2",
    )
    assert found["states"] == [0, 0, 101, -1, 0]
    assert found["contexts"] == [[1, 0, 201]] * 3
    assert found["peers"] == [0, 704, 217, 101]
    assert found["attributes"] == [512, 512, 32, 134217728, 9, 1, 0x11]


@pytest.mark.parametrize(("gpu", "reaches"), [("h200", 1), ("rtx4090", 0)])
def test_all_that_is_said_of_peers_agrees(gpu: str, reaches: int) -> None:
    found = calls(
        """
def answer(name, *arguments):
    value = c_int(-1)
    return call(name, byref(value), *arguments) or value.value
torch.cuda.init()
context = made("cuDevicePrimaryCtxRetain", 1)
say(can=[answer("cudaDeviceCanAccessPeer", 0, 1), answer("cuDeviceCanAccessPeer", 0, 1),
         answer("cudaDeviceGetP2PAttribute", 2, 0, 1), answer("cuDeviceGetP2PAttribute", 2, 0, 1)],
    enabled=[call("cudaDeviceEnablePeerAccess", 1, 0), call("cuCtxEnablePeerAccess", context, 0),
             call("cudaDeviceDisablePeerAccess", 1), call("cuCtxDisablePeerAccess", context)])
""",
        *("--devices", "2", "--gpu", gpu),
    )
    assert found["can"] == [reaches] * 4
    assert found["enabled"] == ([0, 704, 0, 705] if reaches else [217] * 4)


def test_devices_by_their_nvml_names() -> None:
    found = calls(
        """
torch.zeros(1, device="cuda:1")
handle, number, uuid, memory = c_size_t(), c_uint(), create_string_buffer(96), (c_size_t * 5)()
major, minor = c_int(), c_int()
call("nvmlDeviceGetHandleByIndex", 1, byref(handle))
call("nvmlDeviceGetUUID", handle.value, uuid, 96)
same = c_size_t()
call("nvmlDeviceGetHandleByUUID", uuid, byref(same))
call("nvmlDeviceGetIndex", same.value, byref(number))
call("nvmlDeviceGetMemoryInfo_v2", same.value, memory)
call("nvmlDeviceGetCudaComputeCapability", same.value, byref(major), byref(minor))
say(number=number.value, capability=[major.value, minor.value], whole=memory[1] == memory[3] + memory[4],
    used=memory[4] > 0, stranger=call("nvmlDeviceGetHandleByUUID", b"GPU-", byref(same)))
""",
        *("--devices", "2"),
    )
    assert found == {"number": 1, "capability": [9, 0], "whole": True, "used": True, "stranger": 6}


@pytest.mark.parametrize(
    ("devices", "visible", "buses"),
    [
        ("4", "2,0", [0x12, 0x10]),
        ("4", "GPU-5b5b,7,1", [0x11]),
        ("4", "", []),
        ("0", "0", []),
    ],
)
def test_a_program_sees_the_devices_that_it_is_told_to(devices: str, visible: str, buses: list[int]) -> None:
    program = (
        f"import os; os.environ['CUDA_VISIBLE_DEVICES'] = '{visible}'"
        + """
count, bus, all_of_them, found = c_int(), c_int(), c_int(), []
call("nvmlDeviceGetCount_v2", byref(all_of_them))
call("cudaGetDeviceCount", byref(count))
for device in range(count.value):
    call("cudaDeviceGetAttribute", byref(bus), 33, device)
    torch.zeros(1, device=f"cuda:{device}")
    found.append(bus.value)
say(found=found, counts=[torch.cuda.device_count(), all_of_them.value],
    outside=call("cudaSetDevice", count.value))
"""
    )
    found = calls(program, "--devices", devices)
    assert found["found"] == buses
    assert found["counts"] == [len(buses), int(devices)]
    assert found["outside"] == 101


def test_a_fork_of_a_process_that_uses_cuda_cannot() -> None:
    found = calls(
        """
import os
seven, read = c_int(7), c_int()
block = made("cudaMalloc", 4 << 20)
call("cudaMemcpy", block, byref(seven), 4, 1)
source, target = os.pipe()
if (fork := os.fork()) == 0:
    with os.fdopen(target, "wb") as out:
        out.write(bytes([call("cudaMemset", block, 0, 4), call("cudaFree", block), call("cuInit", 0)]))
    os._exit(0)
os.waitpid(fork, 0)
call("cudaMemcpy", byref(read), block, 4, 2)
say(child=list(os.read(source, 3)), read=read.value)
""",
        "--check",
    )
    assert found == {"child": [3, 3, 3], "read": 7}


def test_memory_in_the_order_of_streams_and_captures() -> None:
    found = calls(
        """
def pool():
    handle, value, answers = made("cudaDeviceGetDefaultMemPool", 0), c_size_t(), []
    for attribute in (5, 6, 7, 8):  # reserved, the most of that, used, the most of that
        assert call("cudaMemPoolGetAttribute", handle, attribute, byref(value)) == 0
        answers.append(value.value >> 20)
    return answers
torch.cuda.init()
first, second = made("cudaMallocAsync", 4 << 20, 0), made("cudaMallocAsync", 2 << 20, 0)
call("cudaFreeAsync", first, 0)
call("cudaFree", second)
third = made("cudaMallocAsync", 1 << 20, 0)
before = pool()
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    stream = torch.cuda.current_stream().cuda_stream
    kept = made("cudaMallocAsync", 2 << 20, stream)
    call("cudaMemsetAsync", kept, 0, 2 << 20, stream)
    freed = call("cudaFreeAsync", kept, stream)
graph.replay()
graph.replay()
say(before=before, freed=freed, after=pool())
""",
        "--check",
    )
    assert found == {"before": [1, 6, 1, 6], "freed": 0, "after": [3, 6, 3, 6]}


def test_collectives_that_nccl_has_of_late_use_memory_too() -> None:
    found = calls(
        """
part, whole, found = torch.zeros(2, device="cuda"), torch.zeros(4, device="cuda"), []
ranks = (c_size_t * 2)()
call("ncclCommInitAll", ranks, 2, None)
def written(name, to, *arguments):
    to.zero_()
    other = whole if to is part else part
    assert call(name, other.data_ptr(), to.data_ptr(), 2, 7, *arguments) == 0
    return not knows(to)
say(all_to_all=written("ncclAlltoAll", whole, ranks[0], 0),
    gather=[written("ncclGather", whole, 0, rank, 0) for rank in ranks],
    scatter=[written("ncclScatter", part, 0, rank, 0) for rank in ranks])
""",
        "--values",
    )
    assert found == {"all_to_all": True, "gather": [True, False], "scatter": [True, True]}


def test_copies_and_fills_of_all_names() -> None:
    found = calls(
        """
block = made("cudaMalloc", 4 << 20)
first, other, read = (c_int * 4)(1, 2, 3, 4), (c_int * 4)(5, 6, 7, 8), (c_int * 4)()
def after(name, *arguments):
    call("cudaMemcpy", block, first, 16, 1)
    error = call(name, *arguments)
    call("cuMemcpy", addressof(read), block, 16)
    return [error, *read]
at = addressof(other)
say(copies=[after("cuMemcpy", block, at, 16), after("cuMemcpyAsync", block, at, 16, 0),
            after("cudaMemcpyPeer", block, 0, at, 0, 16), after("cudaMemcpy2D", block, 8, at, 8, 4, 2, 1)],
    fills=[after("cudaMemset2D", block, 8, 0, 4, 2), after("cudaMemset2DAsync", block, 8, 0, 4, 2, 0),
           after("cuMemsetD16_v2", block, 1, 4), after("cuMemsetD16Async", block, 1, 4, 0)],
    refused=[after("cuMemsetD2D8_v2", block, 8, 0, 4, 2), call("cudaMalloc3D", (c_size_t * 4)(), 8)],
    remembered=call("cudaGetLastError"))
""",
        "--values",
    )
    assert found == {
        "copies": [[0, 5, 6, 7, 8], [0, 5, 6, 7, 8], [0, 5, 6, 7, 8], [0, 5, 2, 7, 4]],
        "fills": [[0, 0, 2, 0, 4], [0, 0, 2, 0, 4], [0, 65537, 65537, 3, 4], [0, 65537, 65537, 3, 4]],
        "refused": [[801, 1, 2, 3, 4], 801], "remembered": 801,
    }  # fmt: skip


def test_memory_in_the_order_of_a_stream_is_its_devices_or_its_pools() -> None:
    found = calls(
        """
def device_of(address):
    attributes = (c_int * 64)()
    assert call("cudaPointerGetAttributes", attributes, address) == 0
    return attributes[1]
torch.cuda.set_device(1)
stream = made("cudaStreamCreate")
torch.cuda.set_device(0)
pool = made("cudaMemPoolCreate", (c_int * 22)(1, 0, 1, 1))
say(stream=device_of(made("cudaMallocAsync", 4 << 20, stream)),
    pool=device_of(made("cudaMallocFromPoolAsync", 4 << 20, pool, 0)),
    destroyed=[call("cudaMemPoolDestroy", pool), call("cudaMemPoolDestroy", pool)])
""",
        "--devices",
        "2",
    )
    assert found == {"stream": 1, "pool": 1, "destroyed": [0, 1]}


def test_memory_that_a_graph_frees_goes_with_the_graph() -> None:
    found = calls("""
def used():
    free, total = c_size_t(), c_size_t()
    call("cudaMemGetInfo", byref(free), byref(total))
    return (total.value - free.value) >> 20
torch.cuda.init()
before, stream, found = used(), made("cudaStreamCreateWithFlags", 1), []
for ended_by in ("cudaGraphDestroy", "cudaStreamDestroy"):
    call("cudaStreamBeginCapture", stream, 0)
    call("cudaFreeAsync", made("cudaMallocAsync", 4 << 20, stream), stream)
    if ended_by == "cudaGraphDestroy":
        graph = c_size_t()
        call("cudaStreamEndCapture", stream, byref(graph))
        exec = made("cudaGraphInstantiate", graph.value, 0)
        call("cudaGraphDestroy", graph.value)
        call("cudaGraphLaunch", exec, stream)
        found.append(used())
        call("cudaGraphExecDestroy", exec)
    else:
        found.append(used())
        call("cudaStreamDestroy", stream)
    found.append(used())
say(found=[now - before for now in found])
""")
    assert found["found"] == [4, 0, 4, 0]


def test_a_free_in_the_order_of_a_stream_waits_for_nothing() -> None:
    found = calls(
        """
torch.cuda.init()
stream, event = made("cudaStreamCreateWithFlags", 1), made("cudaEventCreateWithFlags", 2)
block = made("cudaMallocAsync", 4 << 20, stream)
call("cudaEventRecord", event, stream)
say(freed=call("cudaFreeAsync", block, stream), after=call("cudaEventQuery", event))
""",
        "--events",
        "delay:50",
    )
    assert found == {"freed": 0, "after": 600}


def test_memory_is_shown_to_other_processes_by_files_and_not_on_a_fabric() -> None:
    found = calls("""
import os
torch.cuda.init()
file = c_int()
fabric = [(c_int * 8)(1, types, 1, 0) for types in (8, 9)]
created = [call("cuMemCreate", byref(c_size_t()), 2 << 20, properties, 0) for properties in fabric]
handle = made("cuMemCreate", 4 << 20, (c_int * 8)(1, 1, 1, 0), 0)
exported = [call("cuMemExportToShareableHandle", byref(file), handle, type, 0) for type in (1, 8)]
say(created=created, exported=exported, size=os.fstat(file.value).st_size,
    imported=call("cuMemImportFromShareableHandle", byref(c_size_t()), file.value, 1))
""")
    assert found == {"created": [800, 800], "exported": [0, 801], "size": 4 << 20, "imported": 0}


def test_a_watched_program_may_have_tensors_without_memory() -> None:
    found = calls(
        """
from torch.autograd import forward_ad
matrix = torch.eye(4, device="cuda")
with forward_ad.dual_level():
    dual = forward_ad.make_dual(matrix, torch.ones_like(matrix))
    tangent = forward_ad.unpack_dual(dual @ matrix + torch.zeros(4, 4, device="cuda")).tangent
zeros = torch._efficientzerotensor(64, device="cuda")
total = zeros + torch.ones(64, device="cuda")
rows = matrix.to_sparse_csr()
say(tangent=list(tangent.shape), total=list(total.shape), rows=rows.values().tolist())
""",
        "--check",
    )
    assert found == {"tangent": [4, 4], "total": [64], "rows": [1.0] * 4}
