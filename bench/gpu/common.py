"""What the programs of this folder share: allocators, their statistics, forked runs."""

import contextlib
import ctypes
import importlib
import json
import os
import signal
import subprocess
import sys
import time
import traceback
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

sys.path.append(str(Path(__file__).resolve().parents[1] / "live"))  # also for the programs' tables
from report import GIB

MIB = 1 << 20
ROOT = Path(__file__).resolve().parents[2]
CHECKOUT = str(ROOT / "python")
ALLOCATORS = ("default", "expandable", "online", "saved")

cuda: Any = torch.cuda  # most of it has no types


# ---- the device ----


def driver_used() -> int:
    """Bytes of the device in use by anybody, CUDA contexts included."""
    free, total = cuda.mem_get_info()
    return int(total - free)


def hold_all_but(gib: float) -> None:
    """Take memory from the driver, behind every allocator's back, until `gib` GiB are left."""
    free, _ = cuda.mem_get_info()
    size = int(free - gib * GIB)
    address = ctypes.c_uint64()
    answer = ctypes.CDLL("libcuda.so.1").cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(size))
    if answer != 0:
        raise RuntimeError(f"cuMemAlloc of {size / GIB:.1f} GiB: CUDA error {answer}")


def settle(seed: int = 0, *, deterministic: bool = True) -> None:
    """Let two runs of the same program compute the same bits, as far as they are to be deterministic."""
    torch.use_deterministic_algorithms(deterministic)
    # Filling costs time and changes no result of programs that read only what they wrote.
    torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]
    torch.backends.cuda.enable_mem_efficient_sdp(False)  # its backward pass is not deterministic
    torch.backends.cuda.enable_cudnn_sdp(False)
    torch.manual_seed(seed)


# cuBLAS reads this when it starts; without it its results may depend on which workspace it was given.
os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")


# ---- allocators ----


def stweaver() -> Any:  # noqa: ANN401  # it may not be installed
    """Import the package: the one installed, else that of this checkout."""
    if CHECKOUT not in sys.path:
        sys.path.append(CHECKOUT)
    return importlib.import_module("stweaver")


def choose(allocator: str, *, way: str, plan: str = "", save: str = "") -> None:
    """Put one of ALLOCATORS in PyTorch's way, before the first allocation."""
    if allocator == "expandable":
        cuda.memory._set_allocator_settings("expandable_segments:True")
    if allocator not in ("online", "saved"):
        return
    options = {"way": way}
    if allocator == "saved":
        options["plan"] = plan
    elif save:
        options["save"] = save
    stweaver().enable(**options)


def disable() -> None:
    """Stop STWeaver where it runs; waits for a plan that is being saved."""
    if "stweaver" in sys.modules:
        stweaver().disable()


def find(value: object, name: str) -> object:
    """Search for the attribute or key `name` nearest to the surface of nested records; None where none is."""
    queue: deque[object] = deque([value])
    while queue:
        item = queue.popleft()
        if isinstance(item, dict):
            if name in item:
                return item[name]
            queue.extend(item.values())
        elif isinstance(item, list | tuple):
            queue.extend(item)
        elif not isinstance(item, str | int | float | bool | None):
            found = getattr(item, name, None)
            if found is not None and not callable(found):
                return found
            queue.extend(getattr(item, "__dict__", {}).values())
    return None


def statistics_text() -> str:
    """Show all that STWeaver says of itself; "" where it does not run."""
    if "stweaver" not in sys.modules:
        return ""
    try:
        return repr(stweaver().stats())
    except Exception as error:  # it could not be enabled: the run itself says so
        return str(error)


def figure(name: str) -> int:
    """Read a number of STWeaver's own statistics; 0 where it does not run."""
    if "stweaver" not in sys.modules:
        return 0
    found = find(stweaver().stats(), name)
    return found if isinstance(found, int) else 0


def require(truth: bool, message: str) -> None:
    if not truth:
        raise AssertionError(message)


def compiled(source: Path, folder: Path, *options: str) -> Path:
    """Compile a source of C++ into a library in `folder`."""
    library = folder / f"{source.stem}.so"
    flags = ["-std=c++20", "-O2", "-g", "-fPIC", "-shared"]
    subprocess.run(["g++", *flags, str(source), *options, "-o", str(library)], check=True)
    return library


# ---- runs ----


def forked(work: Callable[[], None], log: Path, seconds: float) -> str:
    """Run `work` in a forked process; "" when it went well, else what happened.

    Forking saves every run the import of torch. The caller must not have started CUDA.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    sys.stdout.flush()
    process = os.fork()
    if process == 0:
        _child(work, log)
    return _outcome(process, log, seconds)


def _child(work: Callable[[], None], log: Path) -> None:
    os.setpgid(0, 0)  # so that a time limit ends what it started, too
    with log.open("w") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    code = 1
    try:
        work()
        code = 0
    except BaseException:  # whatever it is, only this process ends
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _outcome(process: int, log: Path, seconds: float) -> str:
    try:
        return _wait(process, log, seconds)
    finally:
        with contextlib.suppress(ProcessLookupError):  # when nothing that it started is left
            os.killpg(process, signal.SIGKILL)


def _wait(process: int, log: Path, seconds: float) -> str:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        done, status = os.waitpid(process, os.WNOHANG)
        if done:
            code = os.waitstatus_to_exitcode(status)
            return "" if code == 0 else f"exit {code}: {last_line(log)}"
        time.sleep(0.02)
    os.kill(process, signal.SIGKILL)
    os.waitpid(process, 0)
    return f"not done after {seconds:.0f} s: {last_line(log)}"


def ran_out(error: str) -> bool:
    """Tell memory that was too little from every other way to fail: a crash, a time limit."""
    return "out of memory" in error


def last_line(log: Path) -> str:
    lines = [line.strip() for line in log.read_text(errors="replace").splitlines() if line.strip()]
    return lines[-1][:200] if lines else "no output"


def write_line(path: Path, record: dict[str, Any]) -> None:
    """Append one JSON line."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        file.write(json.dumps(record) + "\n")


def read_lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
