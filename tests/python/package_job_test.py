"""Which job a process is: the same fingerprint only for the same job."""

import json
import os
import sys
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest
from stweaver import gpu, job
from stweaver.statistics import Simulated

pytestmark = pytest.mark.slow

H200 = gpu.Gpu("NVIDIA H200", 150_754_820_096)
OTHER = gpu.Gpu("NVIDIA L4", 24_152_899_584)


@pytest.fixture(autouse=True)
def _alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in (
        *(name for names in job._RANK for name in names),
        *job._WORLD_SIZE,
        *job._RELEVANT,
        "CUDA_VISIBLE_DEVICES",
    ):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    Path("train.py").write_text("train()")
    Path("llama.yaml").write_text("layers: 2")
    monkeypatch.setattr(gpu, "find", lambda: [H200])


def describe(*arguments: str, torch: str = "2.11.0+cu130", kind: str = "cuda") -> job.Job:
    return job.describe(torch, kind, ["train.py", *(arguments or ("--lr", "1", "--config=llama.yaml"))])


def test_the_same_job_has_the_same_fingerprint() -> None:
    assert describe().fingerprint == describe().fingerprint


def test_other_arguments_make_another_job() -> None:
    assert describe("--lr", "1").fingerprint != describe("--lr", "2").fingerprint


@pytest.mark.parametrize("name", ["train.py", "llama.yaml"])
def test_a_changed_script_or_settings_file_makes_another_job(name: str) -> None:
    before = describe().fingerprint
    Path(name).write_text(Path(name).read_text() + " # changed")
    assert describe().fingerprint != before


def run_that_writes(folder: Path, *outputs: str) -> job.Job:
    """Return the job that a run which wrote these files leaves behind."""
    this = describe("--config=llama.yaml", *outputs).recognized(folder)
    for name in outputs:
        Path(name).write_text(Path(name).read_text() + "x" if Path(name).exists() else "x")
    this = this.without(this.written())
    this.keep_facts(folder, {})
    return this


@pytest.mark.parametrize(("output", "exists"), [("log.json", False), ("log.txt", False), ("log.txt", True)])
def test_what_a_run_writes_does_not_make_the_next_one_another_job(
    tmp_path: Path, output: str, exists: bool
) -> None:
    if exists:
        Path(output).write_text("of a run without STWeaver")
    first = run_that_writes(tmp_path, output)
    assert first.outputs == {output}
    for _ in range(2):
        assert run_that_writes(tmp_path, output).fingerprint == first.fingerprint


@pytest.mark.parametrize("option", ["--output-dir=runs/{}", "runs/{}"])
def test_a_folder_that_each_run_makes_anew_does_not_make_another_job(tmp_path: Path, option: str) -> None:
    found: list[str] = []
    for date in ("monday", "tuesday", "wednesday"):
        this = describe("--lr=1", option.format(date)).recognized(tmp_path)
        assert not found or this.fingerprint == found[0], "it is known before it is made"
        Path("runs", date).mkdir(parents=True)
        this = this.without(this.written())
        this.keep_facts(tmp_path, {})
        found.append(this.fingerprint)
    assert len(set(found)) == 1
    assert describe("--lr=1", option.format("monday")).recognized(tmp_path).fingerprint == found[0]
    for other in (("--lr=2", option.format("sunday")), ("--lr=1", "llama.yaml"), ("--lr=1", "--x=train.py")):
        assert describe(*other).recognized(tmp_path).fingerprint != found[0], other


@pytest.mark.parametrize("option", ["--output-dir=runs/{}", "runs/{}", "--log={}.txt"])
def test_what_a_job_makes_before_it_imports_torch_does_not_make_another_job(
    tmp_path: Path, option: str
) -> None:
    found = set()
    began = job.Beginning(tmp_path, frozenset({"train.py"}))
    for date in ("monday", "tuesday"):
        Path("runs", date).mkdir(parents=True)
        Path(f"{date}.txt").write_text(date)
        os.chdir("runs")
        this = job.describe("2.11.0+cu130", "cuda", ["train.py", option.format(date)], began)
        this = this.recognized(tmp_path)
        this = this.without(this.written())
        this.keep_facts(tmp_path, {})
        found.add(this.fingerprint)
        os.chdir(tmp_path)
    assert len(found) == 1


def test_a_run_that_began_and_did_not_end_is_known_by_what_it_made(tmp_path: Path) -> None:
    this = describe("--lr=1", "runs/monday")
    this.begin(tmp_path)
    Path("runs", "monday").mkdir(parents=True)
    ended = this.without(this.written())
    other = describe("--lr=2", "runs/sunday")
    (killed,) = other.killed(tmp_path)
    assert killed.without(killed.written()).fingerprint == ended.fingerprint
    assert not list(replace(other, rank="0").killed(tmp_path)), "it is another rank's"
    ended.keep_facts(tmp_path, {})
    this.keep_facts(tmp_path, {})
    assert not list(other.killed(tmp_path)), "it has ended"
    for number, text in enumerate(
        ('{"missing": 3}', '{"missing": [], "folder": 3}', '{"missing": [], "folder": ""}')
    ):
        (tmp_path / f"train-{number}.json").write_text(text)
    assert not list(other.killed(tmp_path)), "no facts of ours"


def test_what_names_nothing_and_is_not_made_is_no_output() -> None:
    assert describe("--run=17", "--port", "29500").written() == set()


def test_what_a_run_has_simulated_is_there_for_the_next(tmp_path: Path) -> None:
    first = run_that_writes(tmp_path, "log.json")
    assert first.simulated(tmp_path) == {}
    simulated = {0: Simulated(steps=3, requested=4, reserved=5)}
    first.keep_facts(tmp_path, simulated)
    for _ in range(2):
        assert run_that_writes(tmp_path, "log.json").simulated(tmp_path) == simulated
    assert replace(first, settings="expandable_segments:True").simulated(tmp_path) == {}
    other = {1: Simulated(steps=6, requested=7, reserved=8)}
    first.keep_facts(tmp_path, other)
    assert first.simulated(tmp_path) == simulated | other, "each device has its own"
    bad: list[object] = [3, {"a": {}}, {"0": {}}]
    for simulation in bad:
        document = {"settings": first.settings, "simulated": simulation}
        first.facts_path(tmp_path).write_text(json.dumps(document))
        assert first.simulated(tmp_path) == {}
    first.facts_path(tmp_path).write_text("[")
    assert first.simulated(tmp_path) == {}


@pytest.mark.parametrize("name", ["llama.yaml", "llama.json"])
def test_settings_edited_while_the_job_runs_are_not_its_output(tmp_path: Path, name: str) -> None:
    Path(name).write_text("layers: 2")
    this = describe(f"--config={name}")
    Path(name).write_text("layers: 3")
    assert this.written() == set()
    assert describe(f"--config={name}").recognized(tmp_path).fingerprint != this.fingerprint


def test_a_job_that_goes_to_another_folder_has_written_none_of_its_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("words.txt").write_text("a")
    this = describe("--config=llama.yaml", "words.txt", "log.txt")
    (tmp_path / "out").mkdir()
    monkeypatch.chdir(tmp_path / "out")
    assert this.written() == set()
    (tmp_path / "log.txt").write_text("here")
    assert this.written() == {"log.txt"}


def test_a_file_that_is_gone_was_not_written() -> None:
    Path("words.txt").write_text("a")
    this = describe("words.txt")
    Path("words.txt").unlink()
    assert this.written() == set()


def test_the_facts_of_a_job_are_for_its_user_alone(tmp_path: Path) -> None:
    this = describe("--token=secret")
    for _ in range(2):
        this.keep_facts(tmp_path, {})
        assert this.facts_path(tmp_path).stat().st_mode & 0o777 == 0o600
    assert not list(tmp_path.glob("*.part"))


def test_a_facts_file_that_is_none_is_no_obstacle(tmp_path: Path) -> None:
    for number, text in enumerate(("", "[]", '{"outputs": 3}', '{"outputs": [1]}')):
        (tmp_path / f"train-{number}.json").write_text(text)
    assert describe().recognized(tmp_path) == describe()


def test_another_torch_makes_another_job() -> None:
    assert describe().fingerprint != describe(torch="2.12.0+cu130").fingerprint


def test_another_gpu_makes_another_job_and_more_of_the_same_do_not(monkeypatch: pytest.MonkeyPatch) -> None:
    before = describe().fingerprint
    monkeypatch.setattr(gpu, "find", lambda: [H200] * 8)
    assert describe().fingerprint == before
    monkeypatch.setattr(gpu, "find", lambda: [OTHER])
    assert describe().fingerprint != before


def test_among_different_gpus_it_matters_which_are_visible(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu, "find", lambda: [H200, OTHER])
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    before = describe().fingerprint
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    assert describe().fingerprint != before


def test_on_the_cpu_gpus_do_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    before = describe(kind="cpu").fingerprint
    monkeypatch.setattr(gpu, "find", lambda: [OTHER])
    assert describe(kind="cpu").fingerprint == before


@pytest.mark.parametrize(
    ("name", "value"), [("WORLD_SIZE", "4"), ("RANK", "1"), ("CUBLAS_WORKSPACE_CONFIG", ":4096:8")]
)
def test_what_of_the_environment_matters_makes_another_job(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    before = describe().fingerprint
    monkeypatch.setenv(name, value)
    assert describe().fingerprint != before


def test_each_rank_has_files_of_its_own(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert describe().plan_path(tmp_path).name == f"train-{describe().fingerprint}-device{{device}}.plan"
    assert describe().trace_path(tmp_path / "job.trace") == tmp_path / "job.trace"
    monkeypatch.setenv("WORLD_SIZE", "2")
    paths = set()
    for rank in "01":
        monkeypatch.setenv("RANK", rank)
        paths |= {describe().plan_path(tmp_path), describe().trace_path(tmp_path / "job.trace")}
        assert f"-rank{rank}-" in describe().plan_path(tmp_path).name
    assert len(paths) == 4
    assert tmp_path / "job-rank1.trace" in paths


@pytest.mark.parametrize(
    ("variables", "rank"),
    [
        ({"RANK": "3", "LOCAL_RANK": "1", "NODE_RANK": "1"}, "3"),
        ({"NODE_RANK": "1", "LOCAL_RANK": "2"}, "1.2"),
        ({"LOCAL_RANK": "2"}, "2"),
        ({"SLURM_PROCID": "5", "LOCAL_RANK": "1"}, "5"),
        ({"RANK": "3", "WORLD_SIZE": "1"}, None),
        ({}, None),
    ],
)
def test_a_rank_is_what_the_launcher_says_of_it(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], rank: str | None
) -> None:
    for name, value in {"WORLD_SIZE": "8", **variables}.items():
        monkeypatch.setenv(name, value)
    assert job.rank() == rank
    assert describe().rank == rank


@pytest.mark.parametrize(
    ("command", "name"),
    [
        (["-u", "a b/train it.py", "x"], "train_it"),
        (["-m", "models.llama.pretrain"], "pretrain"),
        (["-c", "train()"], "job"),
    ],
)
def test_files_are_named_after_the_script(command: list[str], name: str) -> None:
    assert job.describe("2.11", "cpu", command).name == name


@pytest.mark.parametrize(("module", "file"), [("pkg.train", "train.py"), ("pkg", "__main__.py")])
def test_a_changed_module_makes_another_job(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, module: str, file: str
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    for name in [name for name in sys.modules if name.partition(".")[0] == "pkg"]:
        monkeypatch.delitem(sys.modules, name)
    (tmp_path / "pkg").mkdir()
    (tmp_path / "pkg" / "__init__.py").touch()
    fingerprints = set()
    for text in ("raise SystemExit(1)", "raise SystemExit(2)", "raise SystemExit(1)"):
        (tmp_path / "pkg" / file).write_text(text)
        fingerprints.add(job.describe("2.11", "cpu", ["-m", module]).fingerprint)
    assert len(fingerprints) == 2
    this = job.describe("2.11", "cpu", ["-m", module])
    assert this.written() == set()


@pytest.mark.parametrize("program", ["app", "app/__main__.py", "app.pyz", "large.py"])
def test_a_program_of_any_kind_and_size_makes_another_job_when_it_changes(program: str) -> None:
    file = Path("app/__main__.py" if program.startswith("app/") or program == "app" else program)
    file.parent.mkdir(exist_ok=True)
    fingerprints = set()
    for number in (1, 2, 1):
        file.write_text("#" * job._MOST_BYTES + str(number))
        fingerprints.add(job.describe("2.11", "cpu", ["-u", program]).fingerprint)
    assert len(fingerprints) == 2


def test_a_module_in_an_archive_makes_another_job_when_that_changes(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    fingerprints = set()
    for number in (1, 2):
        archive = tmp_path / "modules.zip"
        with zipfile.ZipFile(archive, "w") as file:
            file.writestr("zipped.py", f"print({number})")
        monkeypatch.syspath_prepend(archive)
        fingerprints.add(job.describe("2.11", "cpu", ["-m", "zipped"]).fingerprint)
    assert len(fingerprints) == 2


def test_a_program_that_is_edited_while_it_runs_is_not_its_own_output() -> None:
    Path("train").write_text("train()")
    this = job.describe("2.11", "cpu", ["train", "--lr", "1"])
    Path("train").write_text("train(2)")
    assert this.written() == set()


@pytest.mark.parametrize(
    ("command", "is_one"),
    [
        (["train.py", "-c", "-"], True),
        (["-u", "-W", "ignore", "-X", "dev", "train.py"], True),
        (["-Wignore", "-um", "train", "-c"], True),
        (["-mtrain"], True),
        (["-c", "train()"], False),
        (["-uc", "train()"], False),
        (["-u", "-"], False),
        (["--check-hash-based-pycs", "always"], False),
        ([], False),
    ],
)
def test_a_program_that_is_not_in_a_file_is_no_job_that_is_known_again(
    command: list[str], is_one: bool
) -> None:
    assert job.is_program(command) == is_one


def test_what_multiprocessing_started_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    program = "from multiprocessing.spawn import spawn_main; spawn_main()"
    for command, is_one in (
        (["-c", program, "--multiprocessing-fork"], True),
        (["my_multiprocessing.py"], False),
    ):
        monkeypatch.setattr(sys, "orig_argv", ["python", *command])
        assert job.is_helper() == is_one


@pytest.mark.parametrize(
    ("command", "argv", "is_one"),
    [
        (["/venv/bin/torchrun", "train.py"], ["/venv/bin/torchrun", "train.py"], True),
        (["-m", "torch.distributed.run", "train.py"], ["-m", "train.py"], True),
        (["-u", "-m", "deepspeed.launcher.launch", "train.py"], ["-m", "train.py"], True),
        (["/venv/bin/accelerate-launch"], ["/venv/bin/accelerate-launch"], True),
        (["train.py", "torchrun"], ["train.py", "torchrun"], False),
        (["-u", "-m", "train"], ["/home/train.py"], False),
        (["train.py", "-m", "accelerate"], ["train.py", "-m", "accelerate"], False),
    ],
)
def test_what_starts_ranks_is_known_from_what_is_one(
    monkeypatch: pytest.MonkeyPatch, command: list[str], argv: list[str], is_one: bool
) -> None:
    monkeypatch.setattr(sys, "orig_argv", ["python", *command])
    monkeypatch.setattr(sys, "argv", argv)
    assert job.is_launcher() == is_one
