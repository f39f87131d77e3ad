"""What the libraries are made of."""

import os
import subprocess

from programs import PACKAGES, PYTHON, needs_torch


@needs_torch
def test_nothing_of_its_own_cpp_is_exported() -> None:
    variables = {**os.environ, "PYTHONPATH": str(PACKAGES)}

    def output(*command: str) -> str:
        return subprocess.run(command, check=True, capture_output=True, text=True, env=variables).stdout

    folder = output(str(PYTHON), "-m", "nullcuda", "build").strip()
    names = output("nm", "-D", "--defined-only", f"{folder}/libnullcuda.so").split()
    assert "cuMemCreate" in names
    # It is loaded first: programs would take its std::locale for their library's, and free the wrong one.
    assert [name for name in names if name.startswith("_Z")] == []
