"""Let a process that crashes write its Python and its native stack to standard error."""

import ctypes
import faulthandler
import subprocess
import sys
from pathlib import Path

from common import compiled


def show_crashes(folder: Path) -> None:
    """From now on, here and in forked processes; `folder` gets what is compiled for it."""
    try:
        ctypes.CDLL(str(compiled(Path(__file__).with_suffix(".cc"), folder))).show_crashes()
    except (OSError, subprocess.CalledProcessError) as error:
        print(f"no native stacks: {error}", file=sys.stderr)
    # Last: it writes first and then goes on to the handler before it.
    faulthandler.enable(all_threads=True)
