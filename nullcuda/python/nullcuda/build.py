"""Build null CUDA for the PyTorch that is installed: once for each release, into a folder that is kept.

The folder holds `libnullcuda.so`, and beside it one empty shell for each library of CUDA's that torch wants,
of the same name and the same symbol versions: the loader finds the shell, and everything in it in
libnullcuda.so.
"""

import contextlib
import hashlib
import os
import re
import secrets
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor
from importlib import metadata
from pathlib import Path

from nullcuda import headers, stubs
from nullcuda.error import Error

ROOT = Path(__file__).resolve().parents[2]
LIBRARY = "libnullcuda.so"
# What programs open by name, whether torch was linked against it or not.
OPENED = {"libcuda.so.1", "libnvidia-ml.so.1"}
CUDA_LIBRARY = re.compile(r"lib(cu[a-zA-Z]+|nccl|nv[a-zA-Z_]+)\.so\.\d+")
FLAGS = ("-std=c++20", "-O2", "-fPIC", "-fvisibility=hidden", "-pthread", "-w")


def cache() -> Path:
    """Return the folder that keeps what was built; Error where the loader could not take it for a path."""
    if named := os.environ.get("NULLCUDA_CACHE"):
        folder = Path(named).absolute()
    elif home := os.environ.get("XDG_CACHE_HOME"):
        folder = Path(home).absolute() / "nullcuda"
    else:
        try:
            folder = Path.home() / ".cache" / "nullcuda"
        except RuntimeError:
            raise Error("no home folder to build in: set NULLCUDA_CACHE") from None
    if re.search(r"[\s:]", str(folder)):  # where the loader splits LD_PRELOAD
        raise Error(f"{folder}: a space or colon in it; let NULLCUDA_CACHE name another folder")
    return folder


def distribution() -> metadata.Distribution:
    """Return the torch that this Python has; Error where there is none."""
    try:
        return metadata.distribution("torch")
    except metadata.PackageNotFoundError:
        raise Error("no torch here; install it: pip install --no-deps torch") from None


def sources() -> list[Path]:
    """Return everything that the library is made of."""
    return sorted([*ROOT.glob("model/*"), *ROOT.glob("api/*"), ROOT / "values.h"])


def tables() -> list[Path]:
    """Return the sizes that were recorded on GPUs."""
    return sorted(ROOT.glob("tables/*.txt"))


def digest(torch: metadata.Distribution) -> str:
    """Return what tells one build from another."""
    state = hashlib.sha256(torch.version.encode())
    for path in [*sources(), *tables(), Path(__file__), Path(stubs.__file__)]:
        state.update(path.read_bytes())
    return state.hexdigest()[:16]


def output(*command: str) -> str:
    """Return what a program prints; Error with its last line where it fails."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        raise Error(
            f"no {command[0]} here; install a C and C++ compiler (Debian: apt-get install g++)"
        ) from None
    if done.returncode != 0:
        errors = [line for line in done.stderr.splitlines() if "error" in line] or done.stderr.splitlines()
        raise Error(f"{command[0]} failed: {errors[0] if errors else 'it says nothing'}")
    return done.stdout


class Needs:
    """What torch's own libraries want of CUDA's: symbols, and libraries with their versions of symbols."""

    def __init__(self, folder: Path) -> None:
        """Read the libraries in torch/lib."""
        self.symbols: set[str] = set()
        self.libraries: dict[str, set[str]] = {name: set() for name in OPENED}
        own = {path.name for path in folder.iterdir()}
        for library in sorted(folder.glob("*.so*")):
            for name in re.findall(r"\(NEEDED\).*\[(.*)\]", output("readelf", "-d", str(library))):
                if CUDA_LIBRARY.fullmatch(name) and name not in own:
                    self.libraries.setdefault(name, set())
        for library in sorted(folder.glob("*.so*")):
            for line in output("nm", "-D", "--undefined-only", str(library)).splitlines():
                name, _, version = line.split()[-1].partition("@")
                for soname in self.libraries if version else ():
                    if version == soname or version.lstrip("@") == soname:
                        self.libraries[soname].add(soname)
                if stubs.OURS.match(name) or name.startswith(("nvshmem", "nvtx", "cusparseLt")):
                    self.symbols.add(name)
                if version and not name.startswith("_Z") and version.startswith("NVSHMEM"):
                    self.libraries.setdefault("libnvshmem_host.so.3", set()).add(version)


def compile_all(include: list[str], work: Path) -> list[Path]:
    """Compile our own sources, those of a folder at once: one by one, most of the time goes into headers."""

    def compile_folder(name: str) -> Path:
        unit, target = work / f"{name}.cc", work / f"{name}.o"
        parts = [path for path in sources() if path.parent.name == name and path.suffix == ".cc"]
        unit.write_text("".join(f'#include "{path}"\n' for path in parts))
        output("g++", *FLAGS, f"-I{ROOT}", *include, "-c", str(unit), "-o", str(target))
        return target

    with ThreadPoolExecutor() as pool:
        return list(pool.map(compile_folder, ("model", "api")))


def defined(objects: list[Path]) -> set[str]:
    """Return the functions that our own sources define."""
    listing = output("nm", "--defined-only", "-g", *map(str, objects))
    return {line.split()[-1] for line in listing.splitlines() if " " in line}


def shell(soname: str, versions: set[str], folder: Path) -> None:
    """Make an empty library of that name that leads to ours."""
    script = folder / f"{soname}.map"
    script.write_text("".join(f"{version} {{ }};\n" for version in sorted(versions)))
    version_script = [f"-Wl,--version-script={script}"] if versions else []
    source = folder / "shell.c"
    source.write_text("")
    output(
        *("gcc", "-shared", "-fPIC", str(source), "-o", str(folder / soname), f"-Wl,-soname,{soname}"),
        *("-Wl,--no-as-needed", f"-L{folder}", f"-l:{LIBRARY}", "-Wl,-rpath,$ORIGIN", *version_script),
    )
    script.unlink()


def build(folder: Path | None = None) -> Path:
    """Return the folder with the libraries for the torch that is installed; build them where they are not."""
    torch = distribution()
    root = folder or cache()
    done = root / f"{torch.version}-{digest(torch)}"
    if done.is_dir():
        return done
    part = root / f"{done.name}.{os.getpid()}.{secrets.token_hex(4)}.part"  # others may share the folder
    work = part / "work"
    try:
        work.mkdir(parents=True)
        cuda = headers.fetch(torch, root / f"headers-{torch.version}")
        make(cuda, Needs(Path(str(torch.locate_file("torch/lib")))), part, work)
        shutil.rmtree(work)
        with contextlib.suppress(OSError):  # another process was faster
            part.rename(done)
    except OSError as error:  # a full disk, say
        raise Error(f"cannot build in {root}: {error}; let NULLCUDA_CACHE name another folder") from None
    finally:
        shutil.rmtree(part, ignore_errors=True)
    return done


def make(cuda: Path, needs: Needs, part: Path, work: Path) -> None:
    """Compile, generate and link into `part`."""
    both, only_c = stubs.stand_ins(work / "include")
    objects = compile_all(["-isystem", str(cuda), "-isystem", str(both)], work)
    untyped = stubs.write(work / "stubs.c", [cuda, both, only_c], needs.symbols, defined(objects))
    (part / "untyped.txt").write_text("".join(f"{name}\n" for name in untyped))
    compiled = work / "stubs.o"
    command = stubs.compile_command([cuda, both, only_c])
    output(*command, "-O1", "-fPIC", "-fvisibility=hidden", "-c", str(work / "stubs.c"), "-o", str(compiled))
    # Nothing of its C++ library is for others: it is loaded first, so they would take it for theirs.
    exports = work / "exports.map"
    exports.write_text("{ global: *; local: _Z*; };\n")
    output(
        *("g++", "-shared", "-o", str(part / LIBRARY), *map(str, [*objects, compiled])),
        *(f"-Wl,-soname,{LIBRARY}", "-pthread", "-ldl", "-static-libstdc++", "-static-libgcc"),
        *("-Wl,--exclude-libs,ALL", f"-Wl,--version-script={exports}"),
    )
    for soname, versions in needs.libraries.items():
        shell(soname, versions, part)
    (part / "shell.c").unlink()
    (part / "tables").mkdir()
    for table in tables():
        shutil.copy(table, part / "tables")
