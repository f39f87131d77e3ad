"""Which GPUs this machine has, asked of NVML: asking CUDA would settle what a job may still choose."""

import ctypes
from typing import NamedTuple


class Gpu(NamedTuple):
    """One GPU; `memory` is bytes."""

    name: str
    memory: int


class _Memory(ctypes.Structure):
    _fields_ = (("total", ctypes.c_ulonglong), ("free", ctypes.c_ulonglong), ("used", ctypes.c_ulonglong))


def find() -> list[Gpu]:
    """All of them, whatever CUDA_VISIBLE_DEVICES says; none where there is no NVIDIA driver."""
    try:
        nvml = ctypes.CDLL("libnvidia-ml.so.1")
        if nvml.nvmlInit_v2() != 0:
            return []
    except (OSError, AttributeError):
        return []
    try:
        count = ctypes.c_uint()
        nvml.nvmlDeviceGetCount_v2(ctypes.byref(count))
        return [_ask(nvml, number) for number in range(count.value)]
    finally:
        nvml.nvmlShutdown()


def _ask(nvml: ctypes.CDLL, number: int) -> Gpu:
    handle, name, memory = ctypes.c_void_p(), ctypes.create_string_buffer(96), _Memory()
    nvml.nvmlDeviceGetHandleByIndex_v2(number, ctypes.byref(handle))
    nvml.nvmlDeviceGetName(handle, name, len(name))
    nvml.nvmlDeviceGetMemoryInfo(handle, ctypes.byref(memory))
    return Gpu(name.value.decode(errors="replace"), memory.total)
