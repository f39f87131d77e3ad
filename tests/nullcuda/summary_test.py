"""The line at exit, beside what PyTorch's own allocator really reserves for the same steps."""

import re
from pathlib import Path

from runs import PROGRAMS, null_fork, null_python, null_run

PROGRAM = (PROGRAMS / "train_layers.py", "emptied")
ALONE = (
    r"PyTorch alone would have reserved (\S+) GiB in the first (\d+) steps \(simulated( in an earlier run)?\)"
)


def test_the_line_at_exit_knows_what_pytorch_would_have_reserved(tmp_path: Path) -> None:
    run = ("-m", "stweaver", "run", "--plans", tmp_path, "--", null_python(), *PROGRAM, "60")
    alone = []
    for followed in ("a plan made on the way", "train_layers-"):
        done = null_run(*run)
        assert done.returncode == 0, done.stderr
        assert f"; followed {followed}" in done.stderr
        found = re.search(ALONE, done.stderr)
        assert found is not None, done.stderr
        alone.append(found.groups())
    (reserved, steps, earlier), again = alone
    assert earlier is None
    assert again == (reserved, steps, " in an earlier run")
    plain = null_fork(*PROGRAM, steps)
    measured = int(re.findall(r"reserved (\d+)", plain.stdout)[0]) / (1 << 30)
    assert abs(float(reserved) - measured) < 0.01
