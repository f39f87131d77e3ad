"""The floor: PyTorch's own interface for a foreign allocator, for machines where nothing can be built."""

from stweaver import layout
from stweaver.error import Error
from stweaver.library import Adapter, Library


def open_adapter(kind: str, library: Library) -> Adapter:
    """Load the prebuilt adapter; Error when it is missing or the devices are no GPUs."""
    if kind != "cuda":
        raise Error(f"way='pluggable' is for device='cuda', not {kind!r}; use way='wrapper'")
    path = layout.find().pluggable
    if not path.is_file():
        raise Error(f"no such file: {path}; this build has no pluggable allocator, use way='wrapper'")
    return Adapter(path, library)
