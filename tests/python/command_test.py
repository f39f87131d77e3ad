"""The command's contract: its help, its JSON documents, its exit statuses."""

import json
import lzma
import pickle
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
from conftest import TRACES, Answer, Run, write_run

SUBCOMMANDS = ["inspect", "plan", "check", "replay", "compare", "report", "diff", "advise", "doctor", "run"]
GPT2 = TRACES / "gpt2_15b_N.pickle.xz"
MANIFEST = json.loads((TRACES / "manifest.json").read_text())

SMALL_CSV = "id,lower,upper,size\n0,0,10,4096\n1,2,5,1024\n2,5,9,2048\n3,10,12,4096\n"
SMALL_BOUND = 6144


def is_count(value: object) -> bool:
    """Tell whether a JSON value is a number of things or bytes: an integer, not a float or a boolean."""
    return type(value) is int and value >= 0


def requests_and_peak(path: Path) -> tuple[int, int]:
    """Count a snapshot's requests and find their peak with nothing but Python: an independent witness."""
    with lzma.open(path) as file:
        snapshot = pickle.load(file)
    count = live = peak = 0
    for event in snapshot["device_traces"][0]:
        if event["action"] == "alloc":
            count += 1
            live += event["size"]
            peak = max(peak, live)
        elif event["action"] == "free_completed":
            live -= event["size"]
    return count, peak


@pytest.fixture
def csv(tmp_path: Path) -> Path:
    path = tmp_path / "small.csv"
    path.write_text(SMALL_CSV)
    return path


@pytest.fixture(scope="module")
def planned(answer: Answer, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any]:
    """Plan a real job once: the plan file and what the command said of it."""
    path = tmp_path_factory.mktemp("plan") / "gpt2.plan"
    return path, answer("plan", GPT2, "-o", path)


@pytest.mark.parametrize("subcommand", SUBCOMMANDS)
def test_help_shows_an_example(stweaver: Run, subcommand: str) -> None:
    result = stweaver(subcommand, "--help")
    assert result.returncode == 0
    assert result.stderr == ""
    assert "xample" in result.stdout
    assert f"stweaver {subcommand}" in result.stdout.split("xample")[1]


def test_help_names_every_subcommand(stweaver: Run) -> None:
    result = stweaver("--help")
    assert result.returncode == 0
    assert all(subcommand in result.stdout for subcommand in SUBCOMMANDS)


@pytest.mark.parametrize(
    "arguments", [["weave"], ["inspect"], ["inspect", GPT2, "--no-such-option"], ["check", GPT2], ["compare"]]
)
def test_bad_usage_is_status_2_and_prints_no_answer(stweaver: Run, arguments: list[str | Path]) -> None:
    result = stweaver(*arguments)
    assert result.returncode == 2
    assert result.stdout == ""
    assert result.stderr != ""


def test_inspect_tells_what_the_job_asked_for(answer: Answer) -> None:
    document = answer("inspect", GPT2)
    count, peak = requests_and_peak(GPT2)
    assert document["requests"] == count == MANIFEST["gpt2_15b_N"]["requests"]
    assert document["peak_requested"] == peak
    assert document["steps"] == len(MANIFEST["gpt2_15b_N"]["sequence_lengths"])
    for field in ["steps", "streams", "sizes", "lower_bound", "dynamic_requests"]:
        assert is_count(document[field]), field
    assert document["lower_bound"] >= document["peak_requested"]
    assert set(document["classes"]) >= {"persistent", "scoped", "transient"}


def test_plan_reports_a_plan_no_smaller_than_the_bound(planned: tuple[Path, Any]) -> None:
    _, document = planned
    for field in ["requests", "lower_bound", "peak", "threads"]:
        assert is_count(document[field]), field
    assert isinstance(document["winner"], str)
    assert isinstance(document["seconds"], float)
    assert document["peak"] >= document["lower_bound"] > 0
    assert document["ratio"] == pytest.approx(document["peak"] / document["lower_bound"])


def test_check_accepts_the_plan(answer: Answer, planned: tuple[Path, Any]) -> None:
    path, plan = planned
    document = answer("check", path, GPT2)
    assert (document["ok"], document["violations"]) == (True, [])
    assert document["requests"] == plan["requests"]
    assert document["planned"] == plan["requests"] - plan["unplanned"] > 0


def crc32c(data: bytes) -> int:
    """Compute the checksum that a plan file ends with."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def with_all_slots_at_zero(plan: str) -> str:
    """Move every slot of a plan file to offset 0, and mend its checksum."""
    head, slots, rest = re.split(r"^(slots \d+\n)", plan, flags=re.MULTILINE)
    moved = [re.sub(r"^(\d+) \d+", r"\1 0", line) for line in rest.splitlines(keepends=True)[:-1]]
    body = head + slots + "".join(moved)
    return f"{body}crc32c {crc32c(body.encode()):08x}\n"


def test_check_says_no_to_a_plan_whose_slots_share_bytes(answer: Answer, tmp_path: Path) -> None:
    trace, plan = write_run(tmp_path / "job.pickle", {"one": 4096, "other": 2048}), tmp_path / "job.plan"
    answer("plan", trace, "-o", plan)
    assert answer("check", plan, trace)["ok"] is True
    plan.write_text(with_all_slots_at_zero(plan.read_text()))
    document = answer("check", plan, trace, status=1)
    assert document["ok"] is False
    assert any("share bytes" in violation for violation in document["violations"])


def test_check_tells_how_much_is_planned(answer: Answer, stweaver: Run, csv: Path, tmp_path: Path) -> None:
    placed, empty = tmp_path / "placed.csv", tmp_path / "empty.csv"
    answer("plan", csv, "-o", placed)
    assert "4 of 4 requests planned" in stweaver("check", placed, csv).stdout
    empty.write_text("id,lower,upper,size\n")
    answer("plan", empty, "-o", placed)
    document = answer("check", placed, empty)
    assert (document["ok"], document["requests"], document["planned"]) == (True, 0, 0)


def test_a_planning_instance_gets_offsets(answer: Answer, csv: Path, tmp_path: Path) -> None:
    placed = tmp_path / "placed.csv"
    document = answer("plan", csv, "-o", placed)
    assert document["requests"] == 4
    assert document["peak"] == document["lower_bound"] == SMALL_BOUND
    header, *rows = placed.read_text().splitlines()
    assert header == "id,lower,upper,size,offset"
    assert [row.rsplit(",", 1)[0] for row in rows] == SMALL_CSV.splitlines()[1:]
    assert answer("check", placed, csv)["ok"] is True
    packed = tmp_path / "small.csv.xz"
    packed.write_bytes(lzma.compress(csv.read_bytes()))
    assert answer("check", placed, packed)["ok"] is True


def test_an_instance_without_buffers_needs_no_memory(answer: Answer, tmp_path: Path) -> None:
    path = tmp_path / "empty.csv"
    path.write_text("id,lower,upper,size\n")
    document = answer("plan", path)
    assert (document["requests"], document["peak"], document["ratio"]) == (0, 0, 1)


def test_what_has_no_size_takes_no_memory(answer: Answer, tmp_path: Path) -> None:
    csv, out = tmp_path / "in.csv", tmp_path / "out.csv"
    csv.write_text("id,lower,upper,size\n0,0,5,10\n1,0,5,0\n2,1,4,0\n")
    planned = answer("plan", csv, "-o", out, "--capacity", "10")
    assert (planned["peak"], planned["lower_bound"], planned["requests"]) == (10, 10, 3)
    assert answer("check", out, csv)["ok"] is True


def test_check_says_no_to_offsets_that_collide(answer: Answer, csv: Path, tmp_path: Path) -> None:
    placed = tmp_path / "placed.csv"
    header, *rows = SMALL_CSV.splitlines()
    placed.write_text("\n".join([f"{header},offset", *(f"{row},0" for row in rows)]) + "\n")
    document = answer("check", placed, csv, status=1)
    assert document["ok"] is False
    ids = {f"id {row.split(',')[0]}" for row in rows}
    assert all(
        set(violation.partition(" share ")[0].split(" and ")) <= ids for violation in document["violations"]
    )


def test_a_capacity_that_fits_is_status_0(answer: Answer, csv: Path) -> None:
    assert answer("plan", csv, "--capacity", str(SMALL_BOUND))["peak"] <= SMALL_BOUND


def test_a_capacity_below_the_bound_is_status_1(answer: Answer, csv: Path) -> None:
    document = answer("plan", csv, "--capacity", str(SMALL_BOUND - 1), "--timeout", "2", status=1)
    assert document["peak"] == SMALL_BOUND


def test_compare_puts_three_allocators_side_by_side(answer: Answer) -> None:
    (document,) = answer("compare", GPT2)
    assert "gpt2_15b_N" in document["trace"]
    count, peak = requests_and_peak(GPT2)
    assert document["requests"] == count
    assert document["requested_peak"] == peak
    assert is_count(document["lower_bound"])
    for name in ["native", "expandable", "stweaver"]:
        allocator = document["allocators"][name]
        assert is_count(allocator["reserved_peak"])
        assert allocator["efficiency"] == pytest.approx(peak / allocator["reserved_peak"])
    assert document["allocators"]["native"]["source"] in {"measured", "simulated"}
    ours = document["allocators"]["stweaver"]
    for field in ["arena", "fallback_reserved_peak", "hits", "misses"]:
        assert is_count(ours[field]), field
    assert ours["corrupt_blocks"] == 0
    assert ours["hits"] + ours["misses"] == count
    assert isinstance(ours["plan_seconds"], float)
    for name in ["native", "expandable"]:
        theirs = document["allocators"][name]["efficiency"]
        assert document["reduction"][name] == pytest.approx(1 - (1 - ours["efficiency"]) / (1 - theirs))


@pytest.mark.slow
def test_compare_online_serves_the_job_once_more_without_a_plan_from_before(answer: Answer) -> None:
    (document,) = answer("compare", GPT2, "--online")
    online = document["allocators"]["online"]
    assert online["plans"] == 1
    assert online["hits"] + online["misses"] == document["requests"]
    assert online["steady_steps"] == 1, "of four: two recorded, one while planning"
    # Recorded unplanned, not on PyTorch's allocator.
    assert online["before_plan_reserved_peak"] < document["allocators"]["native"]["reserved_peak"]
    assert online["steady_reserved_peak"] < online["before_plan_reserved_peak"]
    assert online["steady_efficiency"] > 0.99
    assert online["plan_seconds"] > 0


def test_replay_serves_the_job_with_its_plan(answer: Answer, planned: tuple[Path, Any]) -> None:
    document = answer("replay", GPT2, "--plan", planned[0])
    count, peak = requests_and_peak(GPT2)
    assert (document["allocator"], document["device"]) == ("stweaver", "host")
    assert (document["requests"], document["requested_peak"]) == (count, peak)
    assert document["efficiency"] == pytest.approx(peak / document["reserved_peak"])
    assert (document["hits"], document["misses"], document["corrupt_blocks"]) == (count, 0, 0)
    assert sum(document["missed"].values()) == document["misses"]
    for field in ["reserved_peak", "fallback_reserved_peak", "arena", "planned", "reused", "waits", "events"]:
        assert is_count(document[field]), field
    assert document["planned"] == count
    assert document["seconds"] > 0
    assert document["ns_per_event"] > 0


def test_replay_plans_by_itself(answer: Answer) -> None:
    document = answer("replay", GPT2)
    assert (document["plans"], document["misses"]) == (1, 0)
    assert document["plan_seconds"] > 0


@pytest.mark.slow
def test_replay_with_pytorchs_allocators_reserves_what_they_do(answer: Answer) -> None:
    (compared,) = answer("compare", GPT2)
    for name in ["native", "expandable"]:
        document = answer("replay", GPT2, "--allocator", name)
        assert document["allocator"] == name
        assert document["reserved_peak"] == compared["allocators"][name]["reserved_peak"]
        assert document["fallback_reserved_peak"] == document["reserved_peak"]
        assert (document["hits"], document["misses"]) == (0, compared["requests"])
        assert document["corrupt_blocks"] == 0


@pytest.mark.slow
def test_replay_online_tells_the_story_of_its_plan(answer: Answer, stweaver: Run) -> None:
    document = answer("replay", GPT2, "--online")
    assert (document["plans"], document["steady_steps"]) == (1, 1)
    assert 0 < document["steady_reserved_peak"] < document["reserved_peak"]
    assert document["before_plan_reserved_peak"] <= document["reserved_peak"]
    assert any("following a plan" in line for line in document["log"])
    assert "following a plan" in stweaver("replay", GPT2, "--online").stdout


def test_replay_follows_a_plan_of_another_job_as_far_as_it_fits(
    stweaver: Run, planned: tuple[Path, Any]
) -> None:
    result = stweaver("replay", TRACES / "llama7b_VR.pickle.xz", "--plan", planned[0], "--json")
    assert result.returncode == 0
    (line,) = result.stderr.splitlines()
    assert "another trace" in line
    document = json.loads(result.stdout)
    assert document["hits"] + document["misses"] == document["requests"]
    assert document["corrupt_blocks"] == 0


def test_replay_moves_less_memory_where_more_may_be_held(answer: Answer, stweaver: Run) -> None:
    job = TRACES / "llama7b_varlen.pickle.xz"
    tight, held = (answer("replay", job, "--online", *hold) for hold in ([], ["--hold", "100"]))
    calls = [document["unmaps"] for document in (tight, held)]
    assert calls[1] < calls[0] / 10
    assert held["reserved_peak"] > tight["reserved_peak"]
    refused = stweaver("replay", job, "--allocator", "native", "--hold", "100")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert refused.stderr.startswith("stweaver: --hold: PyTorch's allocators move no memory;")


def test_replay_says_no_when_memory_does_not_suffice(answer: Answer) -> None:
    document = answer("replay", GPT2, "--capacity", str(20 << 30), status=1)
    assert document["ooms"] > 0
    assert document["reserved_peak"] <= 20 << 30


def test_replay_follows_no_plan_that_a_device_has_no_addresses_for(answer: Answer) -> None:
    document = answer("replay", GPT2, "--capacity", str(1 << 30), status=1)
    assert document["plans"] == 0
    assert document["reserved_peak"] <= 1 << 30
    assert any("no addresses" in line for line in document["log"])


def test_doctor_answers_with_one_document(answer: Answer) -> None:
    assert isinstance(answer("doctor"), dict)


@pytest.mark.slow
@pytest.mark.parametrize(
    "arguments", [["inspect", GPT2], ["plan", GPT2], ["replay", GPT2], ["compare", GPT2, "--online"]]
)
def test_texts_for_people_show_gib(stweaver: Run, arguments: list[str | Path]) -> None:
    result = stweaver(*arguments)
    assert result.returncode == 0
    assert "GiB" in result.stdout
    assert result.stderr == "", "progress belongs on a terminal"


@pytest.mark.parametrize("arguments", [["inspect", GPT2], ["--help"]])
def test_an_answer_that_cannot_be_written_is_an_error(stweaver: Run, arguments: list[str | Path]) -> None:
    command = stweaver("--help").args[0]
    with Path("/dev/full").open("w") as full:
        result = subprocess.run([command, *arguments], stdout=full, stderr=subprocess.PIPE, text=True)
    assert result.returncode == 2
    assert len(result.stderr.splitlines()) == 1


def test_a_file_larger_than_allowed_is_an_error_and_leaves_nothing(stweaver: Run, tmp_path: Path) -> None:
    command, plan = stweaver("--help").args[0], tmp_path / "job.plan"
    small = ["prlimit", "--fsize=4096", str(command), "plan", str(GPT2), "-o", str(plan)]
    result = subprocess.run(small, capture_output=True, text=True)
    assert result.returncode == 2
    assert result.stderr == f"stweaver: {plan}: cannot be written (File too large)\n"
    assert list(tmp_path.iterdir()) == []


def test_memory_that_the_process_may_not_map_is_named(stweaver: Run) -> None:
    small = ["prlimit", "--data=300000000", str(stweaver("--help").args[0]), "compare", str(GPT2)]
    result = subprocess.run(small, capture_output=True, text=True)
    assert result.returncode == 2
    assert "this process may not map the 34.99 GiB that the job asks for" in result.stderr
    assert len(result.stderr.splitlines()) == 1
