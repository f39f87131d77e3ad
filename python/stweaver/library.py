"""libstweaver.so: the C functions of torch/control.h, pareto_search.h and adapter.h, by ctypes."""

import ctypes
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from stweaver.error import Error


def _open(path: Path) -> ctypes.CDLL:
    try:
        return ctypes.CDLL(str(path))
    except OSError as error:
        raise Error(f"cannot load {path}: {error}; build it again on this machine") from None


def _function(library: ctypes.CDLL, name: str, result: Any, *arguments: Any) -> Any:  # noqa: ANN401  (ctypes)
    try:
        function = getattr(library, name)
    except AttributeError:
        raise Error(f"{library._name} lacks {name}: it is of another version; build it again") from None
    function.restype = result
    function.argtypes = arguments
    return function


def _raise(line: bytes | None) -> None:
    """Raise the line that a C function answered; None means that all went well."""
    if line is not None:
        raise Error(line.decode(errors="replace"))


class Library:
    """The core. Calls let other Python threads run."""

    def __init__(self, path: Path) -> None:
        """Load it; Error when the loader cannot."""
        library = _open(path)
        text, handle = ctypes.c_char_p, ctypes.c_void_p
        self.path = path
        self._version = _function(library, "stweaver_version", text)
        self._headers = _function(library, "stweaver_headers", text)
        self._start = _function(library, "stweaver_start", text, handle, text)
        self._stop = _function(library, "stweaver_stop", None, handle)
        self._finish = _function(library, "stweaver_finish", None, handle)
        self._begin_step = _function(library, "stweaver_begin_step", None, handle)
        self._restart = _function(library, "stweaver_restart", None, handle)
        self._statistics = _function(library, "stweaver_statistics", handle, handle)
        self._release = _function(library, "stweaver_release", None, handle)
        self._meters = _function(library, "stweaver_meters", handle, handle, ctypes.c_int)
        self._reset_peaks = _function(library, "stweaver_reset_peaks", None, handle, ctypes.c_int)
        self._reset_accumulated = _function(library, "stweaver_reset_accumulated", None, handle, ctypes.c_int)
        self._plan = _function(library, "stweaver_plan", text, text, text, ctypes.c_int)
        numbers, count, large = ctypes.POINTER(ctypes.c_double), ctypes.c_size_t, ctypes.c_int64
        self._search_new = _function(
            library, "stweaver_search_new", text, numbers, count, ctypes.c_int, large, ctypes.c_uint64,
            ctypes.c_int, large, ctypes.c_bool, ctypes.POINTER(handle),
        )  # fmt: skip
        self._search_delete = _function(library, "stweaver_search_delete", None, handle)
        self._search_ask = _function(library, "stweaver_search_ask", text, handle, ctypes.POINTER(handle))
        self._search_tell = _function(library, "stweaver_search_tell", text, handle, numbers, count)
        self._search_result = _function(
            library, "stweaver_search_result", text, handle, ctypes.POINTER(handle)
        )

    @property
    def version(self) -> str:
        """The version that it was built from."""
        version: bytes = self._version()
        return version.decode()

    @property
    def headers(self) -> dict[str, str]:
        """The SHA-256 of each header that it was built from."""
        lines: bytes = self._headers()
        return dict(line.split() for line in lines.decode().splitlines())

    def start(self, session: int, options: Mapping[str, str]) -> None:
        """Begin a session with the options of control.h; Error when it refuses them."""
        for name, value in options.items():
            if "\n" in value:
                raise Error(f"{name}: a name cannot have a line break in it: {value!r}")
        _raise(self._start(session, os.fsencode("".join(f"{n}={v}\n" for n, v in options.items()))))

    def stop(self, session: int) -> None:
        """End a session; waits for a planner at work."""
        self._stop(session)

    def finish(self, session: int) -> None:
        """End a session at the end of the process; waits for a planner at work, and not for the device."""
        self._finish(session)

    def begin_step(self, session: int) -> None:
        """Tell that a step has ended."""
        self._begin_step(session)

    def restart(self, session: int) -> None:
        """Tell that what begin_step() told of were no steps; waits for a planner at work."""
        self._restart(session)

    def statistics(self, session: int) -> dict[str, Any]:
        """Everything the session knows of itself."""
        statistics: dict[str, Any] = self._document(self._statistics(session))
        return statistics

    def meters(self, session: int, device: int) -> dict[str, Any]:
        """Count a device's blocks as PyTorch does; empty if it was never asked for memory."""
        meters: dict[str, Any] = self._document(self._meters(session, device))
        return meters

    def reset_peaks(self, session: int, device: int) -> None:
        """Let the peaks of meters() begin anew."""
        self._reset_peaks(session, device)

    def reset_accumulated(self, session: int, device: int) -> None:
        """Let what meters() sums up begin anew."""
        self._reset_accumulated(session, device)

    def _document(self, address: int | None) -> Any:  # noqa: ANN401  (a JSON document)
        """Read a text that the library made, and give it back; MemoryError where it could make none."""
        if address is None:
            raise MemoryError
        try:
            return json.loads(os.fsdecode(ctypes.string_at(address)))  # paths are any bytes
        finally:
            self._release(address)

    def plan(self, trace: Path, plan: Path, threads: int) -> None:
        """Plan the whole job in an uncompressed trace; 0 threads: all cores. Error when it cannot be."""
        _raise(self._plan(bytes(trace), bytes(plan), threads))

    def begin_search(
        self,
        variables: Sequence[tuple[int, float, float]],
        objectives: int,
        *,
        evaluations: int,
        seed: int,
        population: int,
        stagnation: int,
        archive: bool,
    ) -> int:
        """Begin a search over variables of kind, lower and upper bound; Error when it makes no sense."""
        search = ctypes.c_void_p()
        numbers = _doubles([number for variable in variables for number in variable])
        search_at = ctypes.byref(search)
        _raise(
            self._search_new(
                numbers, len(variables), objectives, evaluations, seed, population, stagnation, archive,
                search_at,
            )
        )  # fmt: skip
        assert search.value is not None
        return search.value

    def ask(self, search: int) -> list[list[float]]:
        """Return the points to evaluate next; none when the search is over."""
        points: list[list[float]] = self._answer(self._search_ask, search)
        return points

    def tell(self, search: int, rows: Sequence[Sequence[float]]) -> None:
        """Tell what points are: variables, objectives, violation of each."""
        _raise(self._search_tell(search, _doubles([number for row in rows for number in row]), len(rows)))

    def search_result(self, search: int) -> dict[str, Any]:
        """Return what a search has found so far."""
        result: dict[str, Any] = self._answer(self._search_result, search)
        return result

    def _answer(self, function: Any, search: int) -> Any:  # noqa: ANN401  (a JSON document)
        address = ctypes.c_void_p()
        _raise(function(search, ctypes.byref(address)))
        assert address.value is not None
        return self._document(address.value)

    def end_search(self, search: int) -> None:
        """Let go of a search."""
        self._search_delete(search)


def _doubles(numbers: Sequence[float]) -> ctypes.Array[ctypes.c_double]:
    return (ctypes.c_double * len(numbers))(*numbers)


class Adapter:
    """A library that puts a session between PyTorch and the devices."""

    def __init__(self, path: Path, library: Library) -> None:
        """Load it. It needs `library`, which is loaded, so its own loader finds that one."""
        adapter = _open(path)
        self.path = path
        self.library = library
        self._install = _function(adapter, "stweaver_adapter_install", ctypes.c_char_p)
        self._remove = _function(adapter, "stweaver_adapter_remove", ctypes.c_char_p)
        self.session = self._take_session(adapter)

    def _take_session(self, adapter: ctypes.CDLL) -> int:
        """Error where there can be none, as behind another allocator: install() knows why."""
        session: int | None = _function(adapter, "stweaver_adapter_session", ctypes.c_void_p)()
        if session is None:
            _raise(self._install())
            raise Error(f"{self.path} has no session; is it of this version?")
        return session

    def install(self) -> None:
        """Put it in PyTorch's way; Error when that cannot be."""
        _raise(self._install())

    def remove(self) -> None:
        """Take it out again; Error when that cannot be."""
        _raise(self._remove())
