"""The floor: PyTorch's own interface for a foreign allocator, for machines where nothing can be built."""

import ctypes
from pathlib import Path

from stweaver import layout, memory, pytorch
from stweaver.error import Error
from stweaver.library import Adapter, Library

# PyTorch's setters and the functions of torch/pluggable.cc that they take; not every PyTorch has every one.
_HOOKS = {
    "set_reset_fn": "stweaver_reset",
    "set_base_alloc_fn": "stweaver_base_allocation",
    "set_record_stream_fn": "stweaver_record_stream",
    "set_begin_allocate_to_pool": "stweaver_begin_pool",
    "set_end_allocate_to_pool_fn": "stweaver_end_pool",
    "set_release_pool": "stweaver_release_pool",
}


class PluggableAdapter(Adapter):
    """The prebuilt adapter. PyTorch takes it before CUDA is used, once, and keeps it."""

    _is_installed = False

    def install(self) -> None:
        """Make it PyTorch's allocator; Error when CUDA is in use already."""
        super().install()
        if PluggableAdapter._is_installed:
            return
        torch = pytorch.load()
        if torch.cuda.is_initialized():
            raise Error("a pluggable allocator must come before CUDA is used; call enable() earlier")
        allocator = torch.cuda.memory.CUDAPluggableAllocator(
            str(self.path), "stweaver_malloc", "stweaver_free"
        )
        functions = ctypes.CDLL(str(self.path))
        for setter, function in _HOOKS.items():
            address = ctypes.cast(getattr(functions, function), ctypes.c_void_p).value
            if hasattr(allocator._allocator, setter):
                getattr(allocator._allocator, setter)(address)
        try:
            torch.cuda.memory.change_current_allocator(allocator)
        except RuntimeError as error:
            raise Error(
                f"PyTorch refuses a pluggable allocator: {error}; call enable() before CUDA is used"
            ) from None
        memory.supply(torch, self.library, self.session)
        PluggableAdapter._is_installed = True

    def remove(self) -> None:
        """Leave it where it is, without a plan: PyTorch cannot do without it any more."""


def open_adapter(kind: str, library: Library) -> Adapter:
    """Load the prebuilt adapter; Error when it is missing or the devices are no GPUs."""
    if kind != "cuda":
        raise Error(f"way='pluggable' is for device='cuda', not {kind!r}; use way='wrapper'")
    path: Path = layout.find().pluggable
    if not path.is_file():
        raise Error(f"no such file: {path}; this build has no pluggable allocator, use way='wrapper'")
    return PluggableAdapter(path, library)
