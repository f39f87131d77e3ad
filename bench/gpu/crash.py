"""Let a process that crashes write its Python and its native stack to standard error."""

import ctypes
import faulthandler
import subprocess
import sys
from pathlib import Path


def show_crashes(folder: Path) -> None:
    """From now on, here and in forked processes; `folder` gets what is compiled for it."""
    library, source = folder / "crash.so", Path(__file__).with_suffix(".cc")
    flags = ["-std=c++20", "-O1", "-g", "-fPIC", "-shared"]
    try:
        subprocess.run(["g++", *flags, str(source), "-o", str(library)], check=True)
        ctypes.CDLL(str(library)).show_crashes()
    except (OSError, subprocess.CalledProcessError) as error:
        print(f"no native stacks: {error}", file=sys.stderr)
    # Last: it writes first and then goes on to the handler before it.
    faulthandler.enable(all_threads=True)
