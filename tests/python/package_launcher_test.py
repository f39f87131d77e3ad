"""`stweaver run`, and what it leaves alone: jobs without torch, other sitecustomizes, exit statuses.

A small package named torch stands for PyTorch where that is not needed.
"""

import os
import re
import sys
from pathlib import Path

import pytest
from conftest import ROOT, Run
from stweaver import launcher, variables
from stweaver.error import Error

pytestmark = pytest.mark.slow

FAKE_TORCH = "import sys\nprint('torch is loaded by', type(__spec__.loader).__name__)\n"
RUN = ("-m", "stweaver", "run")


@pytest.fixture
def job(tmp_path: Path) -> Path:
    """Make a folder with a torch that is none."""
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch" / "__init__.py").write_text(FAKE_TORCH)
    return tmp_path


def script(folder: Path, *lines: str) -> Path:
    path = folder / "train.py"
    path.write_text("\n".join(lines))
    return path


def test_options_become_variables(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", "/mine")
    settings, command, rank = launcher.parse(
        [
            "--plans",
            "plans",
            "--record",
            "job.trace",
            "--device",
            "cpu",
            "--hold",
            "20",
            "--verbose",
            "--",
            "a",
            "--quiet",
            "--",
        ]
    )
    assert (command, rank) == (["a", "--quiet", "--"], None)
    assert settings == {
        "STWEAVER_RUN": "1",
        "STWEAVER_PLANS": str(tmp_path / "plans"),
        "STWEAVER_RECORD": str(tmp_path / "job.trace"),
        "STWEAVER_DEVICE": "cpu",
        "STWEAVER_HOLD": "20.0",
        "STWEAVER_VERBOSE": "1",
        "PYTHONPATH": f"{launcher.SITE}{os.pathsep}/mine",
    }
    assert launcher.parse(["--no-plan", "--", "a"]).settings["STWEAVER_PLANS"] == ""
    assert launcher.parse(["--", "a"]).settings["STWEAVER_PLANS"] == str(tmp_path / ".stweaver")
    monkeypatch.setenv("STWEAVER_PLANS", "/shared/plans")
    assert launcher.parse(["--", "a"]).settings["STWEAVER_PLANS"] == "/shared/plans"
    assert [launcher.parse([*live, "--", "a"]).live for live in (["--live"], ["--live", "3"])] == [0, 3]
    assert launcher.parse(["--quiet", "--", "a"]).settings["STWEAVER_VERBOSE"] == "0"


def test_the_home_folder_is_put_where_no_shell_has_put_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/me")
    settings = launcher.parse(["--plans=~/plans", "--record=~/job.trace", "--", "a"]).settings
    assert settings["STWEAVER_PLANS"] == "/home/me/plans"
    assert settings["STWEAVER_RECORD"] == "/home/me/job.trace"
    for variable in (variables.CACHE, variables.PLANS, variables.RECORD, variables.LIBRARY):
        monkeypatch.setenv(variable.full_name, "~/x")
        assert variable.path == Path("/home/me/x")
        monkeypatch.setenv(variable.full_name, "~nobody-of-that-name/x")
        with pytest.raises(Error, match=rf"^{variable.full_name}=~nobody.*: no home folder is known"):
            assert variable.path


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["--"],
        ["python", "train.py"],
        ["--verbose", "--quiet", "--", "a"],
        ["--live", "-1", "--", "a"],
        ["--hold", "0", "--", "a"],
        ["--hold", "1e30", "--", "a"],
        ["--plans=~nobody-of-that-name/plans", "--", "a"],
    ],
)
def test_bad_usage_is_status_2(python: Run, arguments: list[str]) -> None:
    result = python(*RUN, *arguments)
    assert (result.returncode, result.stdout) == (2, "")
    assert re.fullmatch("stweaver: .*; see stweaver run --help\n", result.stderr)


def test_a_command_without_dashes_in_front_is_told_of_them(python: Run) -> None:
    result = python(*RUN, "python", "train.py")
    assert "python train.py: no option; name the command after --" in result.stderr


def test_from_a_folder_that_was_removed_nothing_starts(python: Run, tmp_path: Path) -> None:
    program = "import os, sys; os.mkdir('gone'); os.chdir('gone'); os.rmdir('../gone'); "
    program += "import sys; from stweaver.__main__ import main; sys.exit(main(['run', '--', 'true']))"
    result = python("-c", program, cwd=tmp_path)
    assert result.returncode == 2
    assert "the current folder was removed" in result.stderr


def test_a_command_that_is_none_is_status_2_and_one_line(python: Run) -> None:
    result = python(*RUN, "--", "no_such_script.py")
    assert result.returncode == 2
    assert result.stderr == (
        "stweaver: cannot run no_such_script.py: No such file or directory; "
        "write: stweaver run -- python no_such_script.py\n"
    )


def test_the_native_command_hands_run_to_the_package(
    stweaver: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("STWEAVER_PYTHON", sys.executable)
    monkeypatch.setenv("PYTHONPATH", str(ROOT / "python"))
    print_them = "import os, sys; print(os.environ['STWEAVER_PLANS'], sys.argv[1:])"
    words = ["--help", "--", "run"]
    result = stweaver("run", "--plans", tmp_path, "--", sys.executable, "-c", print_them, *words)
    assert (result.stdout, result.stderr) == (f"{tmp_path} {words}\n", "")
    monkeypatch.setenv("PYTHONPATH", "")
    result = stweaver("run", "--", "true")
    assert result.returncode == 2
    assert "pip install" in result.stderr


def test_the_command_has_the_signals_that_it_would_have(python: Run) -> None:
    job = 'set -o pipefail; { while echo a; do :; done; } | head -1; echo "${PIPESTATUS[0]}"'
    done = python("-m", "stweaver", "run", "--no-plan", "--", "bash", "-c", job)
    assert (done.stdout, done.stderr) == ("a\n141\n", "")


def test_a_job_without_torch_is_untouched(python: Run, tmp_path: Path) -> None:
    path = script(
        tmp_path,
        "import sys",
        "print(sys.argv[1:], 'stweaver' in sys.modules, 'ctypes' in sys.modules, sys.path[0])",
        "sys.exit(7)",
    )
    result = python(*RUN, "--", sys.executable, path, "--help", cwd=tmp_path)
    assert (result.stdout, result.stderr) == (f"['--help'] False False {tmp_path}\n", "")
    assert result.returncode == 7
    assert not (tmp_path / ".stweaver").exists()


def test_what_goes_wrong_is_one_line_and_the_job_runs(python: Run, job: Path) -> None:
    result = python(*RUN, "--", sys.executable, script(job, "import torch", "sys.exit(7)", "").name, cwd=job)
    assert result.returncode == 1, "sys is not imported there: the job's own failure stays its own"
    result = python(*RUN, "--", sys.executable, script(job, "import torch, sys", "sys.exit(7)"), cwd=job)
    assert result.returncode == 7
    assert result.stdout == "torch is loaded by SourceFileLoader\n"
    (line,) = result.stderr.splitlines()
    assert line.startswith("stweaver: not enabled: no version.py in")
    assert line.endswith("(the job runs on plain PyTorch)")


def test_a_line_that_cannot_be_written_ends_no_job(python: Run, job: Path) -> None:
    program = f"exec {sys.executable} {script(job, 'import torch, sys', 'sys.exit(7)')} 2> /dev/full"
    assert python(*RUN, "--", "sh", "-c", program, cwd=job).returncode == 7


def test_torch_that_cannot_be_imported_fails_as_ever(python: Run, job: Path) -> None:
    (job / "torch" / "__init__.py").write_text("raise ImportError('broken')")
    lines = ("try: import torch", "except ImportError as error: print(error)")
    result = python(*RUN, "--", sys.executable, script(job, *lines), cwd=job)
    assert (result.stdout, result.stderr) == ("broken\n", "")


def test_a_job_that_only_looks_for_torch_finds_it(python: Run, tmp_path: Path) -> None:
    lines = ("try: import torch.nothing", "except ImportError as error: print(error.name)")
    result = python(
        "-m", "stweaver", "run", "--", sys.executable, "-S", script(tmp_path, *lines), cwd=tmp_path
    )
    assert (result.stdout, result.stderr) == ("torch\n", "")


def test_a_job_that_looks_for_torch_before_it_imports_it_is_enabled(python: Run, job: Path) -> None:
    lines = "import importlib.util, sys\nimportlib.util.find_spec('torch')\nimport torch\n"
    lines += "print('stweaver.autostart' in sys.modules)"
    result = python(*RUN, "--", sys.executable, script(job, lines), cwd=job)
    assert result.stdout == "torch is loaded by SourceFileLoader\nTrue\n"


def test_another_sitecustomize_runs_all_the_same(python: Run, tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("import builtins; builtins.hello = __name__")
    path = script(tmp_path, "import sitecustomize", "print(hello, sitecustomize.__file__)")
    result = python(
        *RUN, "--", sys.executable, path, PYTHONPATH=f"{ROOT / 'python'}{os.pathsep}{tmp_path}", cwd=tmp_path
    )
    assert (result.stdout, result.stderr) == (
        f"sitecustomize {tmp_path / 'sitecustomize.py'}\n",
        "",
    )


def test_the_process_that_starts_ranks_is_left_alone(python: Run, job: Path) -> None:
    path = script(job, "import torch").rename(job / "torchrun")
    result = python(*RUN, "--", sys.executable, path, cwd=job)
    assert (result.stdout, result.stderr) == ("torch is loaded by SourceFileLoader\n", "")


def test_without_run_nothing_is_watched(python: Run, job: Path) -> None:
    path = os.pathsep.join([str(launcher.SITE), str(ROOT / "python")])
    result = python(script(job, "import torch"), cwd=job, PYTHONPATH=path)
    assert result.stderr == ""
