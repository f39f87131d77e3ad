"""The life of a job, on the CPU: record, plan, install, plan again; always with the same losses."""

import dataclasses
import json
import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest
from conftest import ROOT, Answer, Run
from stweaver import statistics

pytestmark = pytest.mark.slow
JOB = ROOT / "tests" / "python" / "small_transformer.py"
TORCHRUN = ("-m", "torch.distributed.run", "--nproc-per-node", "2", "--master-port", "0")


def train(python: Run, *arguments: str | Path) -> Any:  # noqa: ANN401  (a JSON document)
    result = python(JOB, *arguments)
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


@pytest.fixture(scope="module")
def plain(python: Run) -> Any:  # noqa: ANN401
    """Train without STWeaver."""
    return train(python, "plain")


@pytest.fixture(scope="module")
def recorded(python: Run, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any]:
    """Train and record."""
    trace = tmp_path_factory.mktemp("training") / "job.trace"
    return trace, train(python, "record", trace)


@pytest.fixture(scope="module")
def planned(python: Run, recorded: tuple[Path, Any]) -> tuple[Path, Any]:
    """Train under the plan of the recorded job."""
    trace, _ = recorded
    plan = trace.with_suffix(".plan")
    made = python("-c", f"import stweaver; print(stweaver.plan({str(trace)!r}))")
    assert made.stdout == f"{plan}\n", made.stderr
    return plan, train(python, "install", plan)


def test_recording_changes_nothing_but_leaves_a_trace(
    plain: Any,  # noqa: ANN401
    recorded: tuple[Path, Any],
    answer: Answer,
) -> None:
    trace, run = recorded
    assert run["losses"] == plain["losses"]
    assert (run["hits"], run["plans"]) == (0, 0)
    inspected = answer("inspect", trace)
    assert inspected["requests"] == run["misses"]
    assert inspected["steps"] >= run["steps"] - 1


@pytest.mark.parametrize("begin", ["record('job.trace')", "enable(trace='job.trace')"])
def test_a_recording_tells_the_settings_of_pytorchs_allocator(
    python: Run, tmp_path: Path, begin: str
) -> None:
    job = f"import torch, stweaver; stweaver.{begin}; torch.ones(1 << 20); stweaver.disable()"
    done = python(
        "-c", job, cwd=tmp_path, PYTORCH_CUDA_ALLOC_CONF="max_split_size_mb:64", STWEAVER_DEVICE="cpu"
    )
    assert done.returncode == 0, done.stderr
    assert b"max_split_size_mb:64" in (tmp_path / "job.trace").read_bytes()


def test_a_job_that_was_only_recorded_is_planned_once_it_enables(python: Run, tmp_path: Path) -> None:
    job = """
        import torch, stweaver
        stweaver.record("job.trace")
        model = torch.nn.Linear(1024, 1024)
        stweaver.enable()
        optimizer = torch.optim.SGD(model.parameters())
        for _ in range(2000):
            model(torch.ones(64, 1024)).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
            if stweaver.stats().devices[0].served.hits:
                break
        else:
            raise SystemExit("no request was served by a plan")
    """
    done = python("-c", textwrap.dedent(job), cwd=tmp_path, STWEAVER_DEVICE="cpu")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "job.trace").is_file()


def test_optimizers_are_ignored_once_steps_are_marked_though_the_job_enables_again(
    python: Run, tmp_path: Path
) -> None:
    job = """
        import torch, stweaver
        stweaver.enable()
        optimizer = torch.optim.SGD([torch.nn.Parameter(torch.ones(4))])
        steps = lambda: stweaver.stats().devices[0].steps
        stweaver.mark_step()
        for change in ({}, {"hold": 1.0}, {"save": "job.plan"}):
            stweaver.enable(**change)
            before = steps()
            optimizer.step()
            assert steps() == before, change
            stweaver.mark_step()
            assert steps() == before + 1, change
    """
    done = python("-c", textwrap.dedent(job), cwd=tmp_path, STWEAVER_DEVICE="cpu")
    assert done.returncode == 0, done.stderr


def test_a_plan_of_the_whole_job_serves_it_from_its_first_request(
    plain: Any,  # noqa: ANN401
    planned: tuple[Path, Any],
    recorded: tuple[Path, Any],
    answer: Answer,
) -> None:
    plan, run = planned
    assert answer("check", plan, recorded[0])["ok"]
    assert run["losses"] == plain["losses"]
    assert run["hits"] > 0.99 * (run["hits"] + run["misses"])
    assert run["last_step_misses"] <= 2
    assert run["requested"] == recorded[1]["requested"]
    assert run["reserved"] - run["requested"] < 10 << 20, "the slack of a small job, and whole pages of 2 MiB"


def test_a_job_plans_itself_while_it_runs(python: Run, plain: Any) -> None:  # noqa: ANN401
    run = train(python, "enable")
    assert run["losses"] == plain["losses"]
    assert run["plans"] == 1
    assert run["last_step_hits"] > 100 * max(1, run["last_step_misses"])
    assert (run["enabled"], run["sum"]) == (False, 1 << 16)
    assert re.search(r"GiB requested, .* GiB reserved .* planned, \d+ unplanned in 12 steps", run["report"])


def test_a_job_that_changes_is_planned_again(python: Run) -> None:
    change = ("--steps", "36", "--longer-from", "10")
    run = train(python, "enable", *change)
    assert run["losses"] == train(python, "plain", *change)["losses"]
    assert run["plans"] >= 2
    assert run["last_step_hits"] > 100 * max(1, run["last_step_misses"])


def test_a_refused_enable_leaves_the_session_that_runs(python: Run) -> None:
    script = (
        "import stweaver, torch\n"
        "stweaver.enable(device='cpu', hold=0.5)\n"
        "def step():\n"
        "    stweaver.mark_step()\n"
        "    return stweaver.stats().devices[0].steps\n"
        "kept = torch.zeros(1 << 20)\n"
        "print(step())\n"
        "for refused in ({'record_steps': 0}, {'way': 'pluggable'}, {'plan': 'no\\nplan'}, {'hold': -1}):\n"
        "    try:\n"
        "        stweaver.enable(device='cpu', **refused)\n"
        "    except stweaver.Error as error:\n"
        "        print(error)\n"
        "print(stweaver.is_enabled(), stweaver.stats().hold, step())\n"
        "stweaver.disable()\n"
        "before = stweaver.stats().misses\n"
        "torch.zeros(1 << 20)\n"
        "print(stweaver.stats().misses - before)\n"
    )
    result = python("-c", script)
    assert result.returncode == 0, result.stderr
    first, refused, *others, state, misses = result.stdout.splitlines()
    assert (first, refused, state) == ("1", "record_steps=0: must be a number from 1 on", f"True {1 << 29} 2")
    assert len(others) >= 3
    assert misses == "0", "after disable() it is out of the way"


def test_seconds_count_on_as_all_else_when_a_session_begins_anew(python: Run) -> None:
    script = (
        "import stweaver, time\n"
        "stweaver.enable(device='cpu')\n"
        "time.sleep(0.2)\n"
        "stweaver.enable(device='cpu', hold=1)\n"
        "print(stweaver.stats().seconds >= 0.2)\n"
    )
    assert python("-c", script).stdout == "True\n"


def test_what_is_no_number_of_gib_cannot_be_held(python: Run) -> None:
    script = (
        "import stweaver\n"
        "for hold in (0, -1, float('nan'), 1e30, 'much'):\n"
        "    try:\n"
        "        stweaver.enable(device='cpu', hold=hold)\n"
        "    except stweaver.Error as error:\n"
        "        print(error)\n"
        "stweaver.enable(device='cpu', hold=0.5)\n"
        "print(stweaver.stats().hold)\n"
    )
    lines = python("-c", script).stdout.splitlines()
    refused = ["0", "-1", "nan", "1e+30", "much"]
    assert lines == [
        *(f"hold={gib}: must be a number of GiB above 0, as in hold=20" for gib in refused),
        str(1 << 29),
    ]


def test_the_process_needs_no_more_memory_than_its_arena_takes(
    plain: Any,  # noqa: ANN401
    planned: tuple[Path, Any],
) -> None:
    _, run = planned
    print(f"process peak {plain['process_peak']} bytes, planned {run['process_peak']}; {run['hits']} hits")
    assert run["process_peak"] < plain["process_peak"] + (64 << 20), "STWeaver itself is loaded, too"


def test_the_second_run_follows_the_plan_of_the_first(python: Run, tmp_path: Path) -> None:
    command = (
        "-m",
        "stweaver",
        "run",
        "--device",
        "cpu",
        "--",
        sys.executable,
        JOB,
        "plain",
        "--log",  # a file that each run writes is no other job
        "log.json",
        "--steps",
        "30",
    )
    first = python(*command, cwd=tmp_path)
    (plan,) = (tmp_path / ".stweaver").glob("*.plan")
    assert f"saved {plan.name} for the next run" in first.stderr
    second = python(*command, cwd=tmp_path)
    how = r"(100|99) % of \d+ requests planned"
    assert re.search(rf" s in STWeaver .*; {how}; followed {plan.name}$", second.stderr, re.MULTILINE)
    assert json.loads(first.stdout)["losses"] == json.loads(second.stdout)["losses"]
    other = python(*command[:-1], "31", cwd=tmp_path)
    assert "followed small_transformer-" not in other.stderr, "other arguments make another job"
    assert len(list((tmp_path / ".stweaver").glob("*.plan"))) == 2
    quiet = python(*command[:3], "--quiet", *command[3:], cwd=tmp_path)
    assert quiet.stderr == ""


def test_the_second_run_follows_the_plan_of_a_job_that_disables_us_itself(
    python: Run, tmp_path: Path
) -> None:
    (tmp_path / "job.py").write_text(
        f"import runpy, stweaver\nrunpy.run_path({str(JOB)!r}, run_name='__main__')\nstweaver.disable()\n"
    )
    run = ("-m", "stweaver", "run", "--device", "cpu", "--", sys.executable)
    job = ("job.py", "plain", "--log", "log.json", "--steps", "30")
    for fate in ("followed a plan made on the way, saved job-", "followed job-"):
        result = python(*run, *job, cwd=tmp_path)
        assert re.search(rf"^stweaver: .* requests planned; {fate}", result.stderr, re.MULTILINE), (
            result.stderr
        )


def test_each_rank_has_its_own_plan_and_trace(python: Run, tmp_path: Path) -> None:
    run = ("-m", "stweaver", "run", "--device", "cpu", "--record", "job.trace", "--", sys.executable)
    for fate in (r"saved small_transformer-rank{}-\w+-device0.plan", r"followed small_transformer-rank{}-"):
        result = python(*run, *TORCHRUN, JOB, "plain", "--steps", "30", cwd=tmp_path)
        assert result.returncode == 0, result.stderr
        lines = [line for line in result.stderr.splitlines() if line.startswith("stweaver, ")]
        assert len(lines) == 2, result.stderr
        for rank in range(2):
            assert re.search(rf"stweaver, rank {rank}: device 0: .*{fate.format(rank)}", "\n".join(lines))
    assert {path.name for path in tmp_path.glob("*.trace")} == {"job-rank0.trace", "job-rank1.trace"}


def test_a_forked_child_goes_on_with_pytorch_alone(python: Run) -> None:
    program = """
import os, torch, stweaver
torch.set_num_threads(1)
stweaver.enable(device="cpu")
weight = torch.ones(1 << 18, requires_grad=True)
optimizer = torch.optim.AdamW([weight])
def steps():
    for _ in range(5):
        weight.grad = torch.ones_like(weight)
        optimizer.step()
steps()
child = os.fork()
steps()
if child == 0:
    if os.fork() == 0:
        steps()
        os._exit(0)
    os.wait()
    for call in (lambda: stweaver.enable(device="cpu"), stweaver.stats):
        try:
            call()
            os._exit(4)
        except stweaver.Error as error:
            if "forked" not in str(error) or stweaver.is_enabled(): os._exit(3)
    os._exit(0)
print(os.waitpid(child, 0)[1], stweaver.is_enabled(), stweaver.stats().devices[0].steps)
"""
    result = python("-c", program)
    assert result.stdout == "0 True 10\n", result.stderr


def test_a_process_that_was_forked_before_ends_its_session_too(python: Run, tmp_path: Path) -> None:
    program = """
import os, torch, stweaver
torch.set_num_threads(1)
if os.fork() == 0:
    stweaver.enable(device="cpu", trace="job.trace", summary=True)
    torch.ones(1 << 20)
else:
    os.wait()
"""
    done = python("-c", program, cwd=tmp_path)
    assert "followed no plan: no step was seen" in done.stderr
    assert "1 request" in python("-m", "stweaver", "inspect", "job.trace", cwd=tmp_path).stdout


def test_a_script_that_enables_it_may_have_the_line_at_exit_too(python: Run) -> None:
    program = "import torch, stweaver; {}; torch.ones(1 << 20)"
    line = (
        r"stweaver: device 0: 0.00 GiB asked for, 0.01 GiB reserved \(\S+ %\); "
        r"0.0 s in STWeaver \(\S+ % of the run\); 0 % of 1 requests planned; followed no plan: "
        r"no step was seen; call stweaver.mark_step\(\) at the end of each\n"
    )
    once = "stweaver.enable(device='cpu', summary=True)"
    for enable in (once, f"{once}; {once}", f"{once}; stweaver.disable(); {once}"):
        assert re.fullmatch(line, python("-c", program.format(enable)).stderr)
    assert python("-c", program.format("stweaver.enable(device='cpu')")).stderr == ""


def test_out_of_memory_says_what_is_held_and_what_would_help(python: Run) -> None:
    program = """
import torch, stweaver
stweaver.enable(device="cpu")
weight = torch.ones(1 << 20, requires_grad=True)
optimizer = torch.optim.AdamW([weight])
for _ in range(2):
    weight.grad = torch.ones_like(weight)
    optimizer.step()
torch.empty(1 << 50, dtype=torch.uint8)
"""
    result = python("-c", program)
    assert result.returncode == 1
    *_, torchs, asked, held, idle, alive, remedy = result.stderr.splitlines()
    assert torchs.startswith("RuntimeError: ")
    assert "DefaultCPUAllocator: can't allocate memory" in torchs
    assert re.match(r"STWeaver: asked for 1048576.00 GiB in step 2 \(\w+\); the device has \S+ GiB.", asked)
    assert re.match(
        r"  Held: \S+ MiB by STWeaver's arena, 16.00 MiB of it in use; 0 bytes by PyTorch's", held
    )
    assert idle.startswith("  Idle: ")
    assert re.match(
        r"  Alive: 16.00 MiB from before this step, .*most of it in blocks of 4.00 MiB \(4\)", alive
    )
    assert remedy.startswith("  What would help: the request alone is larger than the device")


def test_torch_gets_statistics_where_it_has_none_of_its_own(python: Run) -> None:
    program = """
import json, torch, stweaver
from stweaver import memory, session
stweaver.enable(device="cpu")
memory.supply(torch, session._latest.library, session._latest.adapter.session)
def now():
    return [torch.cuda.memory_allocated(0), torch.cuda.max_memory_allocated(0)]
block, before = torch.empty(3 << 20, dtype=torch.uint8), now()
del block
after = now()
torch.cuda.reset_peak_memory_stats(0)
stats = torch.cuda.memory_stats(0)
print(json.dumps([before, after, now(), stats["requested_bytes.all.allocated"], stats["num_ooms"],
                  torch.cuda.memory_reserved(0) >= 0, torch.cuda.memory_summary(0).count("Peak Usage")]))
"""
    result = python("-c", program)
    assert result.returncode == 0, result.stderr
    size = 3 << 20
    assert json.loads(result.stdout) == [[size, size], [0, size], [0, 0], size, 0, True, 1]


def test_processes_that_start_together_build_one_adapter(tmp_path: Path) -> None:
    environment = {
        name: value for name, value in os.environ.items() if name in {"PATH", "HOME", "STWEAVER_LIBRARY"}
    }
    environment |= {"PYTHONPATH": str(ROOT / "python"), "STWEAVER_CACHE": str(tmp_path)}
    enable = "import stweaver; stweaver.enable(device='cpu'); print(stweaver.is_enabled())"
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", enable],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(3)
    ]
    answers = [process.communicate(timeout=300) for process in processes]
    assert [out for out, _ in answers] == ["True\n"] * 3
    (notice,) = "".join(err for _, err in answers).splitlines()
    assert "building the cpu adapter for PyTorch" in notice
    assert len(list(tmp_path.glob("*.so"))) == 1


def test_an_adapter_that_is_built_needs_no_compiler_any_more(python: Run, tmp_path: Path) -> None:
    program = "import stweaver; stweaver.enable(device='cpu'); print(stweaver.is_enabled())"
    assert python("-c", program).stdout == "True\n"
    for without in ({"PATH": tmp_path, "CXX": None}, {"CXX": "no-such-compiler"}):
        assert python("-c", program, **without).stdout == "True\n"
        compiler = next(one for one in python_findings(python, **without) if one["part"] == "compiler")
        assert compiler["detail"] == "none, and none is needed: the adapter was built before"


def python_findings(python: Run, **variables: str | Path | None) -> Any:  # noqa: ANN401  (a JSON document)
    """Ask what `stweaver doctor` asks."""
    return json.loads(python("-m", "stweaver", "facts", **variables).stdout)["findings"]


def test_an_adapter_keeps_its_own_archive_of_libstdcxx_to_itself(
    python: Run,
    tmp_path: Path,
    plain: Any,  # noqa: ANN401
) -> None:
    run = python(JOB, "enable", CXX="c++ -static-libstdc++", STWEAVER_CACHE=tmp_path)
    assert run.returncode == 0, run.stderr
    assert json.loads(run.stdout)["losses"] == plain["losses"]
    (adapter,) = tmp_path.glob("*.so")
    symbols = subprocess.run(
        ["nm", "-DC", "--defined-only", adapter], capture_output=True, text=True, check=True
    )
    assert "stweaver_adapter_session" in symbols.stdout
    assert "std::ostream" not in symbols.stdout


def test_every_statistic_of_the_library_has_a_field(python: Run) -> None:
    program = (
        "import json, stweaver, torch; from stweaver import session\n"
        "stweaver.enable(device='cpu'); torch.ones(1 << 20)\n"
        "running = session._latest\n"
        "print(json.dumps(running.library.statistics(running.adapter.session)))"
    )
    result = python("-c", program)
    assert result.returncode == 0, result.stderr
    (device,) = json.loads(result.stdout)["devices"]
    kinds: list[tuple[dict[str, Any], type]] = [
        (device, statistics.DeviceStats),
        (device["served"], statistics.Served),
        (device["peaks"], statistics.Peaks),
        (device["step"], statistics.Step),
        (device["mapping"], statistics.ArenaMapping),
    ]
    for written, kind in kinds:
        assert written.keys() == {field.name for field in dataclasses.fields(kind)}
