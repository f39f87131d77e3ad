"""Python runs this before the script, in every process of a job that `stweaver run` has started.

It lets the sitecustomize that it hides run too, and waits for torch: STWeaver is loaded only then. Nothing
that goes wrong here may reach the job.
"""

import importlib
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
    """Enables STWeaver once torch is imported, however often somebody has looked for it before."""

    def __init__(self) -> None:
        self._looking: set[int] = set()  # threads that ask the other finders
        self._process = os.getpid()
        # The job may go elsewhere, and make what its arguments name, before it imports torch.
        self._folder = _current_folder()
        self._there = [word for word in getattr(sys, "orig_argv", [])[1:] if _names_something(word)]

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
            _start(self._process, self._folder, self._there)


def _call_after(loader: "Any", work: "Callable[[], None]") -> None:  # noqa: ANN401  (loaders are of many kinds)
    """Let `work` follow the execution of the loader's module. The loader stays: others look at it."""
    execute = loader.exec_module

    def execute_and_work(module: "ModuleType") -> None:
        del loader.exec_module
        execute(module)
        work()

    try:
        loader.exec_module = execute_and_work
    except AttributeError:
        _say(f"torch is loaded by a {type(loader).__name__}, which cannot be watched")


def _current_folder() -> str:
    try:
        return os.getcwd()
    except OSError:  # it was removed
        return "."


def _names_something(word: str) -> bool:
    """Whether there is such a file or folder; in `--out=runs` the value may name it."""
    return os.path.exists(word) or os.path.exists(word.partition("=")[2])


def _start(process: int, folder: str, there: "list[str]") -> None:
    try:
        _load_package()
        importlib.import_module("stweaver.autostart").start(process, folder, there)
    except Exception as error:
        _say(f"{type(error).__name__}: {error}")


def _load_package() -> None:
    """Load the very package that this file belongs to, even if the job's Python has none or another."""
    if "stweaver" in sys.modules:
        return
    spec = importlib.util.spec_from_file_location(
        "stweaver", os.path.join(_PACKAGE, "__init__.py"), submodule_search_locations=[_PACKAGE]
    )
    if spec is None or spec.loader is None:
        raise ImportError(f"no package in {_PACKAGE}")
    sys.modules["stweaver"] = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(sys.modules["stweaver"])
    except BaseException:
        del sys.modules["stweaver"]
        raise


def _chain() -> None:
    """Run the sitecustomize that would have run without us, under its own name."""
    sys.path[:] = [folder for folder in sys.path if os.path.realpath(folder) != _HERE]
    spec = PathFinder.find_spec("sitecustomize")
    if spec is not None and spec.loader is not None:
        sys.modules["sitecustomize"] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules["sitecustomize"])


def _say(line: str) -> None:
    try:  # noqa: SIM105  (contextlib takes a while to import, in every process)
        print(f"stweaver: not enabled: {line} (the job runs on plain PyTorch)", file=sys.stderr)
    except (OSError, ValueError):  # a full disk, a reader that has gone
        pass


if os.environ.get("STWEAVER_RUN") == "1":
    sys.meta_path.insert(0, _Finder())
_chain()
