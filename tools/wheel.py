"""Build the wheel and the sdist that go to others, into build/wheel/dist.

    python3 tools/wheel.py              adapters for every release of PyTorch that torch_headers.py knows
    python3 tools/wheel.py 2.8 2.15     for these alone

The wheel needs no compiler where it is installed, and glibc 2.28 or newer, as PyTorch's own wheels do. Its
adapters are built from PyTorch's headers alone. The stubs of that glibc come with a compiler from PyPI (zig),
which serves for nothing else here; auditwheel says whether it all fits.
"""

import os
import re
import shutil
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import torch_headers

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "build" / "wheel"
REQUIREMENTS = ROOT / "tools" / "requirements-wheel.txt"
GLIBC = "2.28"
# What is shipped is compiled once: what the release build made and the tests tried.
REUSE = f"python3;{ROOT / 'tools' / 'reuse_objects.py'};{ROOT / 'build' / 'release'};{FOLDER / 'build'}"
PLATFORM = f"manylinux_{GLIBC.replace('.', '_')}_x86_64"
MOST_BYTES = 25_000_000

# Undefined functions that a version need not be named for: PyTorch's, CUDA's and our own.
ELSEWHERE = re.compile(r"c10|^cuda|stweaver")


def run(*command: str | Path, **variables: str) -> str:
    """Run a command and return what it prints; SystemExit with all of it when it fails."""
    done = subprocess.run(
        command, cwd=ROOT, env={**os.environ, **variables}, text=True, capture_output=True, check=False
    )
    if done.returncode != 0:
        sys.exit(f"wheel: {' '.join(map(str, command))} failed:\n{done.stdout}{done.stderr}")
    return done.stdout


def tools() -> Path:
    """Make an environment with the tools, once, and return its folder of programs."""
    folder = FOLDER / "tools"
    stamp = folder / "stamp"
    if not stamp.is_file() or stamp.read_text() != REQUIREMENTS.read_text():
        venv.create(folder, clear=True, with_pip=True)
        pip = (folder / "bin" / "python", "-m", "pip", "--quiet", "--disable-pip-version-check")
        run(*pip, "install", "-r", REQUIREMENTS)
        stamp.write_text(REQUIREMENTS.read_text())
    return folder / "bin"


def glibc_stubs(programs: Path) -> Path:
    """Make a folder with what the linker needs of the old glibc, once: its start-up code and its symbols."""
    folder = FOLDER / f"glibc-{GLIBC}"
    if folder.exists():
        return folder
    part, cache = folder.with_suffix(".part"), FOLDER / "zig"
    for old in (part, cache):
        shutil.rmtree(old, ignore_errors=True)
    part.mkdir(parents=True)
    program = part / "nothing.c"
    program.write_text("int main(void) { return 0; }\n")
    libraries = ("-lc", "-lpthread", "-ldl", "-lm", "-lrt")
    command = ("build-exe", program, "-target", f"x86_64-linux-gnu.{GLIBC}", "-fPIE", *libraries)
    without = ("-fno-compiler-rt", "-fno-ubsan-rt", "-fno-sanitize-c")  # which take half a minute to compile
    variables = {"ZIG_GLOBAL_CACHE_DIR": str(cache), "ZIG_LOCAL_CACHE_DIR": str(cache)}
    output = f"-femit-bin={part / 'nothing'}"
    run(programs / "python", "-m", "ziglang", *command, *without, output, **variables)
    for pattern in ("Scrt1.o", "libc_nonshared.a", "lib*.so.*"):
        for path in cache.rglob(pattern):
            shutil.copy(path, part)
    for name in ("pthread", "dl", "m", "rt"):
        (stub,) = part.glob(f"lib{name}.so.*")
        (part / f"lib{name}.so").symlink_to(stub.name)
    # The linker takes what a text in the place of a library names.
    names = [folder / name for name in ("libc.so.6", "libc_nonshared.a")]
    loader = folder / "libld.so.2"
    (part / "libc.so").write_text(f"GROUP ( {names[0]} {names[1]} AS_NEEDED ( {loader} ) )\n")
    part.rename(folder)
    return folder


def build(programs: Path, releases: list[str], stubs: Path) -> Path:
    """Build the wheel as this machine would have it."""
    defines = {
        "CMAKE_CXX_COMPILER_LAUNCHER": REUSE,
        "CMAKE_DISABLE_FIND_PACKAGE_CLI11": "OFF",  # source_install_test.py turns it on
        "CMAKE_UNITY_BUILD": "ON",
        "CMAKE_PROJECT_INCLUDE": ROOT / "python" / "portable" / "portable.cmake",
        "STWEAVER_GLIBC": stubs,
        "STWEAVER_TORCH": ";".join(releases),
        "STWEAVER_TORCH_HEADERS": torch_headers.ROOT,
    }
    settings = [f"build-dir={FOLDER / 'build'}", *(f"cmake.define.{n}={v}" for n, v in defines.items())]
    folder = FOLDER / "raw"
    shutil.rmtree(folder, ignore_errors=True)
    options = ("--no-isolation", "--outdir", str(folder), *(f"-C{setting}" for setting in settings))
    run(programs / "python", "-m", "build", "--wheel", *options, PATH=f"{programs}:{os.environ['PATH']}")
    (wheel,) = folder.glob("*.whl")
    return wheel


def repair(programs: Path, wheel: Path) -> Path:
    """Name the oldest Linux that the wheel runs on; SystemExit when that is not the one we want."""
    folder = FOLDER / "dist"
    shutil.rmtree(folder, ignore_errors=True)
    path = f"{programs}:{os.environ['PATH']}"
    options = ("--plat", PLATFORM, "--only-plat", "--exclude", "libc10*.so", "--wheel-dir", folder)
    run(programs / "auditwheel", "repair", *options, wheel, PATH=path)
    (repaired,) = folder.glob("*.whl")
    return repaired


def check(wheel: Path) -> None:
    """SystemExit when the wheel is too large, or wants a function that is nowhere to be found."""
    size = wheel.stat().st_size
    if size > MOST_BYTES:
        sys.exit(f"wheel: {wheel.name} has {size / 1e6:.1f} MB, more than {MOST_BYTES / 1e6:.0f}")
    folder = FOLDER / "unpacked"
    shutil.rmtree(folder, ignore_errors=True)
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
    if bundled := [path.name for path in folder.glob("stweaver.libs/*")]:
        sys.exit(f"wheel: these libraries of this machine got into it: {', '.join(bundled)}")
    for library in sorted(folder.rglob("*.so")):
        lines = run("nm", "-D", "--undefined-only", library).splitlines()
        strong = [line.split()[1] for line in lines if line.split()[0] == "U"]
        if missing := [name for name in strong if "@" not in name and not ELSEWHERE.search(name)]:
            sys.exit(f"wheel: {library.relative_to(folder)} wants {', '.join(missing)}, which nobody has")


def main() -> None:
    """Build what the command line asks for."""
    releases = sys.argv[1:] or [torch_headers.minor(release) for release in torch_headers.RELEASES]
    torch_headers.fetch_all(releases)
    programs = tools()
    run(ROOT / "tools" / "build.sh", "release", "stweaver", "stweaver_library", "stweaver_pluggable")
    wheel = repair(programs, build(programs, releases, glibc_stubs(programs)))
    check(wheel)
    # In this mode folders that git ignores, which hold far more files than the project, are not read.
    mode = ("-Cminimum-version=0.12", "-Csdist.inclusion-mode=default")
    run(programs / "python", "-m", "build", "--sdist", "--no-isolation", *mode, "--outdir", wheel.parent)
    for path in sorted(wheel.parent.iterdir()):
        print(f"{path.relative_to(ROOT)}  {path.stat().st_size / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
