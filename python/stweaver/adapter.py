"""The adapters: they include PyTorch's headers, so each is for one release.

Those of known releases come with the wheel (prebuilt.py). For any other release one is built on this machine
when first used, and kept: that needs the C++ compiler alone, no headers of Python, no build system.
"""

import contextlib
import fcntl
import glob
import hashlib
import os
import re
import shlex
import shutil
import struct
import subprocess
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from stweaver import console, layout, prebuilt, pytorch, variables
from stweaver.error import Error
from stweaver.library import Adapter, Library


@dataclass(frozen=True)
class Recipe:
    """What an adapter is built from."""

    source: str
    libraries: tuple[str, ...]  # of PyTorch
    needs_cuda: bool


RECIPES = {
    "cuda": Recipe("cuda_wrapper.cc", ("c10", "c10_cuda"), needs_cuda=True),
    "cpu": Recipe("cpu_adapter.cc", ("c10",), needs_cuda=False),
}


def open_adapter(kind: str, library: Library) -> Adapter:
    """Load the adapter for "cuda" or "cpu" devices, built now if need be; Error when there can be none."""
    check_headers(library)
    choice = choose(kind)
    if choice.path is None:
        return Adapter(build(kind), library)
    pytorch.load()  # the adapter finds PyTorch's functions in the process
    return Adapter(choice.path, library)


def choose(kind: str) -> prebuilt.Choice:
    """Choose among the adapters that came with the package; Error without PyTorch."""
    torch = pytorch.find()
    _check_cuda(RECIPES[kind], torch)
    return prebuilt.choose(RECIPES[kind].source, torch)


def check_headers(library: Library) -> None:
    """Error when an adapter built from our headers would not fit the library: it would end the process."""
    for name, digest in library.headers.items():
        path = layout.find().headers / name
        if not path.is_file() or hashlib.sha256(path.read_bytes()).hexdigest() != digest:
            raise Error(
                f"{library.path} was not built from {path} as it is now; build it again "
                "(`tools/build.sh release`) or install the package again (`pip install .`)"
            )


def build(kind: str) -> Path:
    """Find the adapter for "cuda" or "cpu" devices, from the cache or built now; Error when none can be."""
    recipe = RECIPES[kind]
    torch = pytorch.find()
    folder, stem = cache_folder(), _stem(recipe, torch)
    try:
        compiler = find_compiler()
        command = _command(recipe, torch, compiler)
    except Error:  # the adapter may come with an image, or from a machine that has a compiler
        if built := _built(folder, stem):
            return built[-1]
        raise
    target = folder / f"{stem}-{_digest([*command, compiler.version])}.so"
    if _is_whole(target):
        return target
    try:
        _build_once(command, target, f"the {kind} adapter for PyTorch {torch.version}")
    except Error:
        if built := _built(folder, stem):  # by another compiler
            return built[-1]
        raise
    return target


def _build_once(command: list[str], target: Path, what: str) -> None:
    """Build it unless another process does; Error when that fails, or its folder cannot be written to."""
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with _lock(target.with_suffix(".lock")):  # the ranks of a job all start at once
            if not _is_whole(target):
                console.say(f"building {what}: once, less than a minute")
                _compile(command, target)
    except OSError as error:
        name = variables.CACHE.full_name
        raise Error(
            f"cannot write to {target.parent}: {error.strerror}; let {name} name another folder"
        ) from None


def is_built(kind: str) -> bool:
    """Whether the cache has the adapter, by whichever compiler."""
    return bool(_built(cache_folder(), _stem(RECIPES[kind], pytorch.find())))


def check_parts(kind: str) -> None:
    """Error when build() would not find the headers that it needs."""
    check_headers(Library(layout.find_library()))
    if RECIPES[kind].needs_cuda:
        find_cuda_headers(pytorch.find())


def cache_folder() -> Path:
    """Name the folder that holds what was built."""
    if named := variables.CACHE.path:
        return named.absolute()  # the loader looks for names without a slash elsewhere
    if home := os.environ.get("XDG_CACHE_HOME"):
        return Path(home).absolute() / "stweaver"
    try:
        return Path.home() / ".cache" / "stweaver"
    except RuntimeError:
        raise Error(f"no home folder to build an adapter in: set {variables.CACHE.full_name}") from None


# ---- the compiler ----


@dataclass(frozen=True)
class Compiler:
    """A C++ compiler; `words` is the command, perhaps with options."""

    words: tuple[str, ...]
    version: str


def find_compiler() -> Compiler:
    """Find the compiler of $CXX, else the first of c++, g++ and clang++; Error when there is none."""
    wanted = os.environ.get("CXX")
    for candidate in [wanted] if wanted else ["c++", "g++", "clang++"]:
        with contextlib.suppress(ValueError, OSError):  # an open quote; a program of another machine
            words = shlex.split(candidate)
            if not words or not shutil.which(words[0]):
                continue
            answer = subprocess.run(
                [*words, "--version"], capture_output=True, text=True, stdin=subprocess.DEVNULL
            )
            if answer.returncode == 0:
                return Compiler(tuple(words), (answer.stdout.splitlines() or ["?"])[0])
    missing = f"$CXX, {wanted}, is no C++ compiler" if wanted else "no C++ compiler on the PATH"
    raise Error(f"{missing}; install g++ 12 or later, or use enable(way='pluggable'), which builds nothing")


def find_cuda_headers(torch: pytorch.Build) -> Path:
    """Find the headers of the CUDA run time that PyTorch was built for; Error when there are none."""
    wheels = torch.folder.parent / "nvidia"
    named = [
        Path(os.environ[name]) / "include" for name in ("CUDA_HOME", "CUDA_PATH") if os.environ.get(name)
    ]
    compiler = shutil.which("nvcc")
    guessed = [Path(compiler).resolve().parent.parent / "include"] if compiler else []
    major = (torch.cuda or "").partition(".")[0]
    for folder in [
        *named,
        wheels / f"cu{major}" / "include",
        wheels / "cuda_runtime" / "include",
        *guessed,
        Path("/usr/local/cuda/include"),
        Path(f"/usr/local/cuda-{torch.cuda}/include"),
    ]:
        if _cuda_major(folder) == major:
            return folder
    raise Error(
        f"no headers of the CUDA {torch.cuda} run time here; install them (pip install nvidia-cuda-runtime"
        f"{'' if major >= '13' else '-cu' + major}) or let CUDA_HOME name the toolkit"
    )


def _cuda_major(folder: Path) -> str | None:
    try:
        text = (folder / "cuda_runtime_api.h").read_text(errors="replace")
    except OSError:
        return None
    found = re.search(r"^#define\s+CUDART_VERSION\s+(\d+)", text, re.MULTILINE)
    return str(int(found[1]) // 1000) if found else None  # 13020 is 13.2


# ---- building ----


def _command(recipe: Recipe, torch: pytorch.Build, compiler: Compiler) -> list[str]:
    """Everything but the name of the output."""
    _check_cuda(recipe, torch)
    parts = layout.find()
    library = layout.find_library()
    system = [torch.includes, torch.includes / "torch" / "csrc" / "api" / "include"]
    if recipe.needs_cuda:
        system.append(find_cuda_headers(torch))
    return [
        *compiler.words,
        *("-std=c++20", "-O2", "-fPIC", "-shared"),
        f"-I{parts.adapters}",
        f"-I{parts.headers}",
        *(f"-isystem{folder}" for folder in system),
        str(parts.adapters / recipe.source),
        f"-L{torch.libraries}",
        *(f"-l{name}" for name in recipe.libraries),
        str(library),
        # A toolchain may link libstdc++ as an archive. That copy is to be all our own then: mixed with the
        # one that PyTorch loaded, its streams call functions that are not there.
        "-Wl,--exclude-libs,ALL",
        *(f"-Wl,-rpath,{folder}" for folder in (library.parent, torch.libraries)),
    ]


def _check_cuda(recipe: Recipe, torch: pytorch.Build) -> None:
    if recipe.needs_cuda and torch.cuda is None:
        raise Error(f"PyTorch {torch.version} in {torch.folder} is not built for CUDA; use device='cpu'")


def _stem(recipe: Recipe, torch: pytorch.Build) -> str:
    """Name an adapter by all that it is made from but the compiler: whichever it was, the adapter fits."""
    parts = layout.find()
    library = layout.find_library()
    sources = [*parts.adapters.glob("*.h"), *parts.adapters.glob("*.cc"), *parts.headers.glob("*/*.h")]
    files = [*sorted(sources), library]
    contents = [f"{path.name} {hashlib.sha256(path.read_bytes()).hexdigest()}" for path in files]
    places = [str(library.parent), str(torch.libraries)]  # where it looks for what it needs
    digest = _digest([torch.version, torch.git_version, *places, *contents])
    return f"{Path(recipe.source).stem}-torch{torch.version}-{digest}"


def _built(folder: Path, stem: str) -> list[Path]:
    """Those of all compilers, the latest last."""
    found = filter(_is_whole, folder.glob(f"{glob.escape(stem)}-*.so"))
    return sorted(found, key=lambda path: path.stat().st_mtime)


def _is_whole(path: Path) -> bool:
    """Whether there is a library of which nothing is missing: its last part is the table that its head names.

    A full disk, or a machine that went down, may have left a part of it (elf(5)).
    """
    try:
        with path.open("rb") as file:
            magic, at, size, count = struct.unpack("<4s36xQ10xHH2x", file.read(64))
            return bool(magic == b"\x7fELF" and at + size * count <= os.fstat(file.fileno()).st_size)
    except (OSError, struct.error):
        return False


def _digest(words: Iterable[str]) -> str:
    return hashlib.sha256("".join(f"{word}\0" for word in words).encode()).hexdigest()[:16]


def _compile(command: list[str], target: Path) -> None:
    """Build beside the target and rename: whoever finds the target finds all of it."""
    with tempfile.NamedTemporaryFile(dir=target.parent, suffix=".so", delete=False) as file:
        beside = Path(file.name)
    try:
        run = subprocess.run(
            [*command, "-o", str(beside)], capture_output=True, text=True, stdin=subprocess.DEVNULL
        )
        if run.returncode != 0:
            log = target.with_suffix(".log")
            log.write_text(shlex.join(command) + "\n" + run.stderr)
            raise Error(f"{command[0]} failed: {_first_error(run.stderr)}; all it said is in {log}")
        if not _is_whole(beside):
            raise Error(f"{command[0]} failed: it made no library, and said nothing")
        beside.chmod(0o755)
        beside.replace(target)
    finally:
        beside.unlink(missing_ok=True)


def _first_error(output: str) -> str:
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    for word in ("No space left", "error"):
        if line := next((line for line in lines if word in line), None):
            return line
    return lines[-1] if lines else "it said nothing"


@contextlib.contextmanager
def _lock(path: Path) -> Iterator[None]:
    """Let one process in at a time. Where a file system has no locks all go in, and the last rename wins."""
    with path.open("w") as file:
        with contextlib.suppress(OSError):
            fcntl.flock(file, fcntl.LOCK_EX)
        yield
