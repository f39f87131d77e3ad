"""Python runs this before the script, in every process that `python -m nullcuda run` has started.

It lets the sitecustomize that it hides run too, sets what a launcher would have set, and waits for torch:
what watches it is loaded only then. A process that never imports torch pays nothing.
"""

import importlib.util
import os
import sys
from _thread import get_ident
from importlib.machinery import ModuleSpec, PathFinder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType
    from typing import Any

_HERE = os.path.dirname(os.path.realpath(__file__))
_PACKAGE = os.path.dirname(_HERE)


class _Finder:
    """Sets to work once torch is imported, however often somebody has looked for it before."""

    def __init__(self) -> None:
        self._looking: set[int] = set()  # threads that ask the other finders

    def find_spec(self, name: str, *_: object) -> "ModuleSpec | None":
        thread = get_ident()
        if name != "torch" or self not in sys.meta_path or thread in self._looking:
            return None
        self._looking.add(thread)
        try:
            spec = importlib.util.find_spec(name)
        finally:
            self._looking.remove(thread)
        if spec is not None and spec.loader is not None:
            _call_after(spec.loader, self._start)
        return spec

    def _start(self) -> None:
        if self in sys.meta_path:
            sys.meta_path.remove(self)
            _start()


def _call_after(loader: "Any", work: "Callable[[], None]") -> None:  # noqa: ANN401  (loaders are of many kinds)
    """Let `work` follow the execution of the loader's module; the loader may be watched by others, too."""
    execute = loader.exec_module

    def execute_and_work(module: "ModuleType") -> None:
        loader.exec_module = execute
        execute(module)
        work()

    loader.exec_module = execute_and_work


def _start() -> None:
    """Load the very package that this file belongs to, even if the job's Python has none or another."""
    if "nullcuda" not in sys.modules:
        spec = importlib.util.spec_from_file_location(
            "nullcuda", os.path.join(_PACKAGE, "__init__.py"), submodule_search_locations=[_PACKAGE]
        )
        if spec is None or spec.loader is None:
            raise ImportError(f"no package in {_PACKAGE}")
        sys.modules["nullcuda"] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules["nullcuda"])
    if _watches():
        importlib.import_module("nullcuda.observer").start()
    if "NULLCUDA_WORLD" in os.environ:
        importlib.import_module("nullcuda.rank").install(
            int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
        )


def _watches() -> bool:
    return "1" in (os.environ.get("NULLCUDA_VALUES"), os.environ.get("NULLCUDA_CHECK"))


def _be_a_rank() -> None:
    """Set what a launcher would have set: programs read it before they import torch."""
    world = int(os.environ["NULLCUDA_WORLD"])
    rank = int(os.environ.get("NULLCUDA_RANK", "0"))
    local = min(int(os.environ.get("NULLCUDA_LOCAL_WORLD", "8")), world)
    if not 0 <= rank < world or local < 1:
        sys.exit(f"nullcuda: NULLCUDA_RANK is {rank}, and NULLCUDA_WORLD {world}")
    os.environ.update(
        RANK=str(rank),
        WORLD_SIZE=str(world),
        LOCAL_RANK=str(rank % local),
        LOCAL_WORLD_SIZE=str(local),
        GROUP_RANK=str(rank // local),
        GROUP_WORLD_SIZE=str(-(-world // local)),
        MASTER_ADDR="127.0.0.1",
        MASTER_PORT="29500",
        TORCH_NCCL_ENABLE_MONITORING="0",  # it would look for the peers
    )
    os.environ.pop("TORCHELASTIC_USE_AGENT_STORE", None)


def _chain() -> None:
    """Run the sitecustomize that would have run without us, under its own name."""
    sys.path[:] = [folder for folder in sys.path if os.path.realpath(folder) != _HERE]
    spec = PathFinder.find_spec("sitecustomize")
    if spec is not None and spec.loader is not None:
        sys.modules["sitecustomize"] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules["sitecustomize"])


if "NULLCUDA_WORLD" in os.environ:
    _be_a_rank()
if _watches() or "NULLCUDA_WORLD" in os.environ:
    sys.meta_path.insert(0, _Finder())
_chain()
