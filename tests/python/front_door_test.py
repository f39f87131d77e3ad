"""The ways in: make's targets, the scripts behind them, the benches."""

import json
import math
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import advised
import checks
import compare
import features
import host_time
import layouts
import pytest
import run as live
import table
import tidy
import tight
import times
import traces
import train
import unseen
from conftest import ROOT


def run(*command: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=300
    )


def test_make_alone_says_what_there_is() -> None:
    targets = re.search(r"^\.PHONY: (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert targets is not None
    result = run("make", "--no-print-directory")
    assert result.returncode == 0
    assert [line.split()[1] for line in result.stdout.splitlines()] == targets[1].split()


@pytest.mark.parametrize("group", ["build", "test", "python"])
def test_setting_up_a_second_time_does_nothing(group: str) -> None:
    result = run("tools/setup.sh", group)
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")


def test_a_stage_that_does_not_exist_is_an_error() -> None:
    result = run("tools/test.sh", "no_such_stage")
    assert result.returncode == 2
    assert "no_such_stage" in result.stderr


def test_a_stage_counts_what_ran_and_shows_what_was_skipped(tmp_path: Path) -> None:
    def count(*files: str, status: int = 0) -> str:
        for number, content in enumerate(files):
            (tmp_path / f"stage.{number}.xml").write_text(f"<testsuites>{content}</testsuites>")
        functions = "source <(sed -n '/^[a-z_]*() {/,/^}/p' tools/test.sh)"
        variables = f"results={tmp_path} passed=0 failed=0 skipped=0"
        shown = 'echo "$passed $failed $skipped$detail"'
        return run("bash", "-c", f"{functions}; {variables}; count stage {status}; {shown}").stdout.strip()

    def suite(tests: int, failures: int = 0, cases: str = "") -> str:
        return f'<testsuite name="s" errors="0" failures="{failures}" tests="{tests}">{cases}</testsuite>'

    skip = '<testcase><skipped type="pytest.skip" message="no GPU">here: no GPU</skipped></testcase>'
    assert count() == "1 0 0"
    assert count(suite(3), suite(2, failures=1)) == "4 1 0, 5 tests"
    assert count(suite(3), suite(2, cases=skip)) == "4 0 1, 4 tests, 1 skipped:\n    no GPU"
    assert count(suite(3), suite(0)) == "3 1 0, 4 tests, no test ran in stage.1.xml"
    (tmp_path / "stage.1.xml").unlink()
    assert count(suite(1, cases=skip)) == "0 1 1, 1 tests, no test ran in stage.0.xml, 1 skipped:\n    no GPU"


def test_lint_reads_a_header_with_a_source_that_includes_it(tmp_path: Path) -> None:
    texts = {
        "a.cc": '#include "inner.h"',
        "b.cc": '#include "outer.h"  // and more',
        "outer.h": '#include "inner.h"',
        "inner.h": "",
        "alone.h": "",
    }
    paths = {name: tmp_path / name for name in texts}
    for name, text in texts.items():
        paths[name].write_text(f"{text}\n")
    a, b = (tidy.Unit(paths[name], f"c++ -I{tmp_path} -c {name}") for name in ("a.cc", "b.cc"))
    assert tidy.chosen({paths["a.cc"]}, [a, b]) == ([a], set())
    assert tidy.chosen({paths["inner.h"]}, [a, b]) == ([a], set())
    assert tidy.chosen({paths["b.cc"], paths["inner.h"]}, [a, b]) == ([b], set())
    assert tidy.chosen({paths["outer.h"], paths["alone.h"]}, [a, b]) == ([b], {paths["alone.h"]})


def test_lint_reads_again_what_is_compiled_or_judged_in_another_way(tmp_path: Path) -> None:
    source, header = tmp_path / "a.cc", tmp_path / "a.h"
    source.write_text('#include "a.h"\n')
    header.write_text("")
    before = tidy.Unit(source, "c++ -c a.cc").digest("version 1")
    assert tidy.Unit(source, "c++ -c a.cc").digest("version 1") == before
    assert tidy.Unit(source, "c++ -c a.cc").digest("version 2") != before
    assert tidy.Unit(source, "c++ -O3 -c a.cc").digest("version 1") != before
    header.write_text("int a;\n")
    assert tidy.Unit(source, "c++ -c a.cc").digest("version 1") != before


def test_the_benchmark_measures_what_it_is_given(tmp_path: Path) -> None:
    path = tmp_path / "small.csv"
    path.write_text("id,lower,upper,size\n0,0,10,4096\n1,2,5,1024\n")
    command = os.environ.get("STWEAVER_COMMAND", "build/release/stweaver")
    result = run(sys.executable, "bench/plan.py", path, "--command", command, "--json")
    assert result.returncode == 0, result.stderr
    (row,) = json.loads(result.stdout)
    assert (row["name"], row["requests"], row["peak"]) == ("small", 2, 5120)
    assert 0 < row["seconds"] < row["total_seconds"]
    assert row["memory"] > 1 << 20


def test_the_benchmark_does_not_take_examples_for_an_empty_folder(tmp_path: Path) -> None:
    result = run(sys.executable, "bench/plan.py", tmp_path, "--command", sys.executable)
    assert (result.returncode, result.stdout) == (1, "")
    assert result.stderr == f"bench: {tmp_path}: no .csv below this folder; name traces one by one\n"


def test_only_a_lack_of_memory_bounds_the_sizes_that_train(tmp_path: Path) -> None:
    def largest(ends: dict[int, str]) -> tight.Largest:
        search = tight.Search("gpt2", "sequence", 4, 9, tmp_path, deadline=math.inf)
        search.probes = {("default", size): tight.Probe(error) for size, error in ends.items()}
        return search.largest("default", sorted(ends))

    full, late = "OutOfMemoryError: CUDA out of memory.", "not done after 45 s: step 3"
    assert largest({8: "", 16: "", 24: full, 32: full}) == tight.Largest(16)
    assert largest({8: full, 16: full}) == tight.Largest(0)
    assert largest({8: "", 16: "", 24: late, 32: full}) == tight.Largest(16, f"24: {late}")


def test_a_run_that_breaks_is_not_one_that_does_not_fit() -> None:
    choice = advised.Choice(1, 0, 1000, 10, dict.fromkeys(advised.RESERVED, 10.0))
    case = advised.Case("gpt2", 24, "all", {name: [choice, choice] for name in advised.RESERVED})

    class Trainer(advised.Trainer):
        def train(self, _case: advised.Case, allocator: str, _choice: advised.Choice) -> advised.Measured:
            return ends[allocator]

    ends = {
        "stweaver": advised.Measured("", tokens_per_second=900),
        "expandable": advised.Measured("out of memory"),
        "default": advised.Measured("not done after 40 s: step 3"),
    }
    attempts = list(Trainer(Path(), math.inf).attempts(case))
    assert [one.allocator for one in attempts] == ["stweaver", "expandable", "expandable", "default"]
    cells = [cell.strip() for cell in advised.gain_table(attempts, timed=True).splitlines()[-1].split("|")]
    assert cells[4:-1] == ["failed", "does not train", "900", "", "trains alone"]
    assert advised.failed(attempts)


def test_a_feature_that_cannot_be_tried_is_not_said_to_work(tmp_path: Path) -> None:
    def needs_two() -> None:
        checks.other_device("wrapper", gpus=1)

    features.try_one("other device", needs_two, tmp_path / "features.wrapper.jsonl")
    assert features.cell(tmp_path, "wrapper", "other device") == "not tried: one GPU"
    assert features.cell(tmp_path, "wrapper", "memory_stats") == "not reached"


@pytest.mark.parametrize(("answer", "status"), [("yes", 0), ("not tried", 0), ("no", 1), (None, 1)])
def test_features_fail_where_one_fails_under_any_way(
    answer: str | None, status: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def try_all(way: str, names: list[str], _gpus: int, folder: Path, _deadline: float) -> None:
        said = answer if way == "pluggable" else "yes"
        for name in names if said else []:
            features.write(folder / f"features.{way}.jsonl", name, str(said), "" if said == "yes" else "why")

    monkeypatch.setattr(features, "try_all", try_all)
    monkeypatch.setattr(features, "show_crashes", lambda _: None)
    monkeypatch.setattr(features, "count_gpus", lambda _: 1)
    monkeypatch.setattr(sys, "argv", ["features.py", "--out", str(tmp_path), "--only", "MemPool"])
    assert features.main() == status


def test_two_rounds_are_compared_with_what_failed_and_what_was_cut_off(tmp_path: Path) -> None:
    def rounds(name: str, **runs: tuple[int, str]) -> compare.Runs:
        some = {
            allocator: {"peak": 1 << 30, "reserved_by_step": [1 << 30] * steps, "error": error}
            for allocator, (steps, error) in runs.items()
        }
        (tmp_path / name).write_text(json.dumps({"jobs": {"trainer": {"runs": some}}}))
        return compare.runs_of(tmp_path / name)

    first = rounds("first", default=(8, ""), first=(8, ""), second=(8, ""))
    second = rounds("second", default=(8, ""), first=(3, "exit 1: MemoryError"), second=(4, ""), held=(8, ""))
    table, notes = compare.comparison(first, second, steps=False).split("\n\n")
    assert [[cell.strip() for cell in line.split("|")[2:-1]] for line in table.splitlines()[2:]] == [
        ["default", "1.00", "1.00", "0.00 %", "8 of 8"],
        ["first", "1.00", "failed", "-", "-"],
        ["second", "1.00", "1.00", "0.00 %", "4 of 4"],
    ]
    assert notes.splitlines() == [
        "trainer, first, second: exit 1: MemoryError",
        "trainer, second: 8 steps in the first, 4 in the second",
        "trainer, held: not in the first",
    ]


def test_rows_that_cannot_be_predicted_are_not_counted_as_predicted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = unseen.rows_of_paper(*unseen.PAPERS["2104.04473, table 2"])
    unseen.judge_rows("some", "megatron's", [*rows, rows[0] | {"heads": "7"}], tmp_path)
    out, err = capsys.readouterr()
    assert out.split(" | ")[2] == "6 of 7"
    assert err.startswith("rows: left out: line 8: ")


LINE = {"requested": 1 << 30, "reserved": 2 << 30, "peak_requested": 1 << 30, "peak_reserved": 2 << 30}
LINE |= {"seconds": 1, "cpu_seconds": 1, "hits": 1, "misses": 0}


@pytest.fixture
def broken(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """Let training loops run at once, all but those whose log has one of these names."""
    names: set[str] = set()

    def execute(_start: object, variables: dict[str, str], log: Path, *_: object, limited: bool) -> str:
        assert limited
        log.write_text("")
        path = Path(variables["LIVE_OUT"].format(rank=0))
        path.write_text(f"{json.dumps(LINE)}\n" * int(variables["LIVE_STEPS"]))
        return "exit 1: broken" if names & {log.stem, log.parent.name} else ""

    monkeypatch.setattr(live, "execute", execute)
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    return names


def test_training_loops_fail_as_a_whole_and_keep_what_was_measured(
    tmp_path: Path, broken: set[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def main(job: str, *more: str) -> int:
        common = ("--allocators", "default,first,second", "--out", str(tmp_path), "--python", "python")
        monkeypatch.setattr(sys, "argv", ["run.py", job, *common, *more])
        return live.main()

    assert main("trainer") == 0
    broken.add("first")
    assert main("t5") == 1
    assert "t5 second: not run, for first failed" in capsys.readouterr().err
    jobs = json.loads((tmp_path / "live.json").read_text())["jobs"]
    assert {name: list(job["runs"]) for name, job in jobs.items()} == {
        "trainer": ["default", "first", "second"],
        "t5": ["default", "first"],
    }
    with pytest.raises(SystemExit, match=r"live\.json: has runs on h200, not h100; give another --out"):
        main("t5", "--gpu", "h100")

    monkeypatch.setattr(sys, "argv", ["times.py", "--by-job", str(tmp_path / "live.json")])
    times.main()
    cells = [cell.strip() for cell in capsys.readouterr().out.splitlines()[-1].split("|")[1:-1]]
    assert cells == ["t5", "1.00", "2.00 50.0 %", "failed", "not run", "1000", "-", "-", "-, -", "-, -"]


def test_layouts_go_on_behind_one_that_fails(
    tmp_path: Path, broken: set[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    broken.add("tp2")
    monkeypatch.setattr(
        sys, "argv", ["layouts.py", "tp2", "dp8", "--out", str(tmp_path), "--python", "python"]
    )
    assert layouts.main() == 1
    out, err = capsys.readouterr()
    assert "tp2: 1.00 GiB asked, 2.00 reserved, 3 steps, 0 s; exit 1: broken" in err
    assert "| dp8 " in out
    assert "| layouts | 1 of 2 |" in out


def test_recordings_go_on_behind_one_that_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def repeat(name: str, *_: object) -> dict[str, object]:
        if name == "moe_R":
            raise EOFError("a recording that ends early")
        peaks = {"requested": 1 << 30, "reserved": 2 << 30}
        same = {"error": "", "exact": True, "sizes_compared": True, "identical": 3, "events": 3}
        return same | {"recorded": peaks, "here": peaks, "expandable": 0, "seconds": 1}

    monkeypatch.setattr(traces, "repeat", repeat)
    monkeypatch.setattr(traces, "build", lambda _: None)
    monkeypatch.setattr(traces, "transformers", lambda _: tmp_path)
    monkeypatch.setenv("LIVE_PACKAGES", "")
    monkeypatch.setattr(sys, "argv", ["traces.py", "moe_R", "moe_N", "--python", "python"])
    assert traces.main() == 1
    out = capsys.readouterr().out
    assert re.search(r"\| moe_N +\| +3 / 3 ", out)
    assert "- moe_R: EOFError: a recording that ends early" in out


def test_host_time_is_that_of_the_steps_alone() -> None:
    perf = """
         python3   901/901   10.464351:  ffffffff821cebd8 (/usr/lib/libc10_cuda.so)
     pt_autograd_0   901/905   11.500000:      7f7a0322ff38 (/usr/lib/libstweaver.so)
         python3   901/901   11.600000:      7f7a0322ff38 (/usr/lib/libc.so.6)
         python3   901/901   12.000000:      7f7a0322ff38 (/usr/lib/libc10_cuda.so)
          worker   901/906   11.700000:      7f7a0322ff38 (/usr/lib/libc10_cuda.so)
         python3   901/901   13.019494:      7fb5169bb1b0 (/usr/lib/libc10_cuda.so)
    """
    assert host_time.in_allocators(perf, 11.0, 12.0) == 2


def test_losses_are_compared_on_all_ranks_and_with_the_default_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    losses = {"default": ["ab", "cd"], "online": ["ab", "ce"]}  # of each step, a letter for each rank

    def forked(work: Callable[[], None], *_: object) -> str:
        run = work.args[0]  # type: ignore[attr-defined]
        for rank in range(2):
            mine = {"losses": [step[rank] for step in losses[run.allocator]]}
            Path(train.ranked(run.out, str(rank))).write_text(json.dumps(mine))
        return ""

    monkeypatch.setattr(table, "forked", forked)
    plan = table.Plan(tmp_path, seconds=60, steps=2)
    outcomes = [table.do(plan, "fsdp", allocator, 0) for allocator in ("default", "online")]
    assert table.same_losses(outcomes[1], outcomes[:1]) == "1/2 same"
    assert table.comparison(outcomes) == (["fsdp online 0"], [])
    assert table.same_losses(outcomes[1], []) == "-"
    assert table.comparison(outcomes[1:]) == ([], ["fsdp"])
