"""`stweaver run` and jobs that enable STWeaver themselves: who decides what."""

import os
import re
import sys
from pathlib import Path

import pytest
from conftest import Answer, Run

pytestmark = pytest.mark.slow

# Without an optimizer, whose first use takes as long to import as PyTorch itself.
JOB = """
import sys, torch, stweaver
exec(sys.argv[1])
weight = torch.ones(1 << 18, requires_grad=True)
for _ in range(30):
    (weight * weight).sum().backward()
    weight.data -= 0.1 * weight.grad
    weight.grad = None
    stweaver.mark_step()
"""
RUN = ("-m", "stweaver", "run", "--device", "cpu")


def run(python: Run, folder: Path, begin: str, *options: str, **variables: str) -> str:
    """Run the job, which does `begin` first; return its lines at exit."""
    (folder / "train.py").write_text(JOB)
    done = python(*RUN, *options, "--", sys.executable, "train.py", begin, cwd=folder, **variables)
    assert done.returncode == 0, done.stderr
    return "".join(line for line in done.stderr.splitlines(keepends=True) if "building" not in line)


def test_what_a_job_enables_itself_leaves_the_plans_of_the_run(python: Run, tmp_path: Path) -> None:
    begin = "stweaver.enable(hold=1.0)"
    first = run(python, tmp_path, begin, "--record", "job.trace")
    (plan,) = (tmp_path / ".stweaver").glob("*.plan")
    assert f"saved {plan.name} for the next run" in first
    assert "of 1.00 GiB to hold" in first
    assert (tmp_path / "job.trace").stat().st_size > 0
    for _ in range(2):
        assert re.search(rf"of 1.00 GiB to hold .*; followed {plan.name}$", run(python, tmp_path, begin))


def test_facts_are_kept_beside_plans_and_nowhere_else(python: Run, tmp_path: Path) -> None:
    run(python, tmp_path, "raise SystemExit")
    assert {path.name for path in (tmp_path / ".stweaver").iterdir()} == {".lock"}
    run(python, tmp_path, "")
    (facts,) = (tmp_path / ".stweaver").glob("*.json")
    written = facts.read_text()
    facts.unlink()
    run(python, tmp_path, "")
    assert facts.read_text() == written, "also where the run before was killed"


def test_a_plan_that_is_removed_while_it_is_followed_was_followed(python: Run, tmp_path: Path) -> None:
    begin = "import glob, os; torch.ones(1); [os.remove(path) for path in glob.glob('.stweaver/*.plan')]"
    run(python, tmp_path, begin)
    (plan,) = (tmp_path / ".stweaver").glob("*.plan")
    line = run(python, tmp_path, begin)
    assert re.search(rf"; followed {plan.name}, which is no longer there$", line), line


def test_a_recording_that_cannot_be_written_is_said_once(python: Run, tmp_path: Path) -> None:
    (tmp_path / "job.trace").symlink_to("/dev/full")
    for loudness in ((), ("--verbose",)):
        said = run(python, tmp_path, "", "--no-plan", "--record", "job.trace", *loudness)
        assert said.count("job.trace: cannot be written (No space left on device)\n") == 1


def test_a_folder_may_have_any_name(python: Run, tmp_path: Path) -> None:
    folder = Path(os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9"))
    folder.mkdir()
    assert "not enabled" not in run(python, folder, "")
    assert len(list((folder / ".stweaver").glob("*.plan"))) == 1


def test_a_job_that_lets_more_be_held_is_recorded_and_planned_on(python: Run, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(
        JOB.replace("mark_step()", "mark_step()\n    if _ == 2: stweaver.enable(hold=1.0)")
    )
    command = (*RUN, "--record", "job.trace", "--", sys.executable, "train.py", "")
    done = python(*command, cwd=tmp_path)
    assert re.search(r"of 1.00 GiB to hold .*followed a plan made on the way, saved ", done.stderr), (
        done.stderr
    )
    assert sorted(path.name for path in tmp_path.glob("*.trace")) == ["job.trace"]


def test_a_session_that_begins_anew_leaves_the_recording_of_the_first_steps(
    python: Run, tmp_path: Path, answer: Answer
) -> None:
    begin = "kept = torch.ones(5 << 20); stweaver.enable(record_steps=3)"
    run(python, tmp_path, begin, "--no-plan", "--record", "job.trace")
    assert answer("inspect", tmp_path / "job.trace")["requests"] == 1
    assert answer("inspect", tmp_path / "job-again.trace")["requests"] > 10


def test_a_plan_that_the_job_names_is_followed_in_place_of_the_runs(python: Run, tmp_path: Path) -> None:
    assert "; followed no plan" in run(python, tmp_path, "stweaver.record('job.trace')")
    (tmp_path / "own.plan").write_text("no plan")
    line = run(python, tmp_path, "stweaver.enable(plan='own.plan', record_steps=40)")
    assert "; did not follow own.plan: " in line
    assert "next run" not in line
    assert (tmp_path / "own.plan").exists(), "it is the job's"


def test_a_script_may_have_a_long_name(python: Run, tmp_path: Path) -> None:
    script = tmp_path / f"{'é' * 120}.py"
    script.write_text(JOB)
    for fate in ("saved é{64}-", "; followed é{64}-"):
        done = python(*RUN, "--", sys.executable, script.name, "", cwd=tmp_path)
        assert re.search(fate, done.stderr), done.stderr


def test_a_damaged_plan_is_named_though_a_plan_made_on_the_way_is_followed(
    python: Run, tmp_path: Path
) -> None:
    run(python, tmp_path, "")
    [plan] = (tmp_path / ".stweaver").glob("*.plan")
    plan.write_text(plan.read_text()[:-40])
    line = run(python, tmp_path, "")
    assert re.search(rf"; did not follow {plan.name}: .*; followed a plan made on the way, saved ", line), (
        line
    )
    assert str(plan) not in line
    assert f"; followed {plan.name}" in run(python, tmp_path, "")


def test_workers_that_are_forked_before_torch_is_imported_keep_no_plan(python: Run, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("""
import multiprocessing
def work():
    import torch
    weight = torch.ones(1 << 20, requires_grad=True)
    optimizer = torch.optim.AdamW([weight])
    for _ in range(30):
        (weight * 2).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
if __name__ == "__main__":
    workers = [multiprocessing.get_context("fork").Process(target=work) for _ in range(2)]
    for worker in workers: worker.start()
    for worker in workers: worker.join()
""")
    done = python(*RUN, "--record", "job.trace", "--", sys.executable, "train.py", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert len(list(tmp_path.glob("*.trace"))) == 2
    assert not list(tmp_path.glob(".stweaver/*.plan")), "of whichever of them"


def test_a_script_from_standard_input_keeps_no_plan(python: Run, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(JOB)
    words = ("sh", "-c", f"{sys.executable} - '' < train.py")
    done = python(*RUN, "--", *words, cwd=tmp_path)
    assert re.search("; followed a plan made on the way$", done.stderr), done.stderr
    assert not (tmp_path / ".stweaver").exists()


def test_a_process_that_a_rank_starts_leaves_its_recording(python: Run, tmp_path: Path) -> None:
    begin = """
import os, subprocess
if not os.environ.get("INNER"):
    environment = {**os.environ, "INNER": "1"}
    subprocess.run([sys.executable, *sys.argv], env=environment, check=True)
"""
    for _ in range(2):
        done = run(python, tmp_path, begin, "--no-plan", "--record", "job.trace")
        assert len(done.splitlines()) == 2
    traces = sorted(path.name for path in tmp_path.glob("*.trace"))
    assert len(traces) == 3, "the second run overwrites the first one's"
    assert traces[-1] == "job.trace"
    assert all(re.fullmatch(r"job-\d+\.trace", name) for name in traces[:-1])


def test_a_plan_that_does_not_fit_is_replaced_though_the_job_is_killed(python: Run, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("""
import os, signal, torch
weight = torch.ones(1 << 10, requires_grad=True)
optimizer = torch.optim.AdamW([weight])
for _ in range(30):
    for number in range(40):
        torch.ones(int(os.environ["SIZE"]) + 4096 * number)
    weight.sum().backward()
    optimizer.step()
if os.environ["SIZE"] == "1000000":
    os.kill(os.getpid(), signal.SIGKILL)
""")
    command = (*RUN, "--", sys.executable, "train.py")
    fates = ("followed a plan made on the way, saved", None, "followed a plan made on the way, saved")
    for size, fate in zip(("1000", "1000000", "1000"), fates, strict=True):
        done = python(*command, cwd=tmp_path, SIZE=size)
        assert (done.returncode == 0) == (fate is not None)
        assert fate is None or fate in done.stderr
        assert len(list((tmp_path / ".stweaver").glob("*.plan"))) == (fate is not None)


def test_a_plan_of_a_run_that_was_killed_is_followed_by_one_with_another_output(
    python: Run, tmp_path: Path
) -> None:
    killed = """
import glob, os, time
while not glob.glob(".stweaver/*.plan"): time.sleep(0.1)
if "tuesday" not in sys.argv: os.kill(os.getpid(), 9)
"""
    (tmp_path / "train.py").write_text(JOB + killed)
    command = (*RUN, "--", sys.executable, "train.py", "import os; os.mkdir(sys.argv[2])")
    for date in ("sunday", "monday"):
        assert python(*command, date, cwd=tmp_path).returncode == -9
        (plan,) = (tmp_path / ".stweaver").glob("*.plan")
    assert f"; followed {plan.name}" in python(*command, "tuesday", cwd=tmp_path).stderr
    assert list((tmp_path / ".stweaver").glob("*.plan")) == [plan]


def test_a_folder_that_the_job_makes_first_of_all_does_not_make_another_job(
    python: Run, tmp_path: Path
) -> None:
    (tmp_path / "train.py").write_text("import os, sys; os.mkdir(sys.argv[2]); os.chdir(sys.argv[2])" + JOB)
    command = (*RUN, "--", sys.executable, "train.py", "")
    assert "saved train-" in python(*command, "monday", cwd=tmp_path).stderr
    (plan,) = (tmp_path / ".stweaver").glob("*.plan")
    assert f"; followed {plan.name}" in python(*command, "tuesday", cwd=tmp_path).stderr


@pytest.mark.parametrize(
    ("method", "module", "preloaded"),
    [
        ("spawn", "torch", ""),
        ("spawn", "sys", ""),
        ("forkserver", "torch", "rank"),
        ("forkserver", "torch", ""),
        ("forkserver", "sys", ""),
        ("fork", "sys", ""),
    ],
)
def test_a_rank_that_multiprocessing_starts_says_how_it_went_once(
    python: Run, tmp_path: Path, method: str, module: str, preloaded: str
) -> None:
    """Whether its module imports torch, in the server or as the process is made ready, or its work does."""
    (tmp_path / "rank.py").write_text(
        f"import os, sys, {module}\ndef train():\n    sys.argv[1:] = ['']\n    exec({JOB!r}, {{}})\n"
        "    os.fork() or os._exit(0)\n    os.wait()"
    )
    (tmp_path / "main.py").write_text(
        "import multiprocessing, rank\n"
        "if __name__ == '__main__':\n"
        f"    multiprocessing.set_forkserver_preload([{preloaded!r}] if {preloaded!r} else [])\n"
        f"    process = multiprocessing.get_context({method!r}).Process(target=rank.train)\n"
        "    process.start(); process.join()"
    )
    done = python(*RUN, "--record", "job.trace", "--", sys.executable, "main.py", cwd=tmp_path)
    assert done.stderr.count("followed a plan made on the way") == 1, done.stderr
    assert "not enabled" not in done.stderr, "in what the rank forks"
    assert len(list(tmp_path.glob("job-*.trace"))) == 1


def test_a_job_that_could_not_be_enabled_leaves_no_facts(python: Run, tmp_path: Path) -> None:
    said = run(python, tmp_path, "raise SystemExit", "--record", "nowhere/job.trace")
    assert "not enabled: no such folder: " in said
    assert {path.name for path in (tmp_path / ".stweaver").iterdir()} == {".lock"}


def test_processes_beside_each_other_record_into_files_of_their_own(python: Run, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(JOB)
    workers = "& ".join([f"{sys.executable} train.py 'import time; time.sleep(1)'"] * 2)
    done = python(
        *RUN, "--no-plan", "--record", "job.trace", "--", "sh", "-c", f"{workers}& wait", cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    other, first = sorted(path.name for path in tmp_path.glob("*.trace"))
    assert first == "job.trace"
    assert re.fullmatch(r"job-\d+\.trace", other)
