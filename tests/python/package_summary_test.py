"""The line at exit: what a job asked for, what it reserved, what PyTorch would have, and what it cost."""

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from conftest import ROOT
from package_api_test import device
from stweaver import autostart, statistics, summary
from stweaver.statistics import DeviceStats, Peaks, SavedPlan, Simulated, Stats

GIB = 1 << 30


def stats(simulated: Simulated | None = None, **changes: object) -> Stats:
    one = replace(
        statistics.parse({"devices": [device(0, follows=1)]}).devices[0],
        peaks=Peaks(requested=40 * GIB, reserved=41 * GIB, fallback_reserved=0),
        nanoseconds=1_500_000_000,
        simulated=simulated,
    )
    return Stats((replace(one, **changes),), (), seconds=300.0)  # type: ignore[arg-type]


def with_plan(saved_plan: SavedPlan, hits: int, misses: int, **changes: object) -> DeviceStats:
    one = stats(None, **changes).devices[0]
    return replace(one, served=replace(one.served, hits=hits, misses=misses), saved_plan=saved_plan)


def line(of: Stats, earlier: Simulated | None = None) -> str:
    (only,) = summary.lines(of, earlier=None if earlier is None else {0: earlier})
    return only


def test_it_says_what_was_asked_for_reserved_and_spent() -> None:
    assert line(stats()) == (
        "device 0: 40.00 GiB asked for, 41.00 GiB reserved (97.6 %; last step 80.0 %); "
        "1.5 s in STWeaver (0.5 % of the run); 75 % of 4 requests planned; followed a plan made on the way"
    )


def test_it_says_how_much_might_be_held() -> None:
    assert ", 41.00 GiB reserved of 100.00 GiB to hold (97.6 %;" in line(replace(stats(), hold=100 * GIB))


@pytest.mark.parametrize(("requested", "asked"), [(40 * GIB, ""), (30 * GIB, ", with 30.00 GiB asked for")])
def test_it_says_what_pytorch_would_have_reserved_where_that_is_known(requested: int, asked: str) -> None:
    simulated = Simulated(steps=3, requested=requested, reserved=52 * GIB)
    alone = f"; PyTorch alone would have reserved 52.00 GiB in the first 3 steps{asked} (simulated"
    assert f"{alone});" in line(stats(simulated))
    assert f"{alone} in an earlier run);" in line(stats(), simulated)
    assert f"{alone});" in line(stats(simulated), Simulated(steps=1, requested=1, reserved=1))
    assert "PyTorch alone" not in line(stats())


def test_it_says_why_no_plan_was_followed() -> None:
    assert line(stats(plans=0, why_no_plan="steps differ")).endswith("; followed no plan: steps differ")
    assert line(stats(plans=0)).endswith("; followed no plan")
    unseen = line(stats(plans=0, steps=0))
    assert unseen.endswith("plan: no step was seen; call stweaver.mark_step() at the end of each")
    assert "41.00 GiB reserved (97.6 %); " in unseen
    assert line(stats(plans=0, steps=0, why_no_plan="damaged")).endswith("; followed no plan: damaged")


def test_it_says_why_a_plan_was_left() -> None:
    left = line(stats(why_no_plan="in step 7 more memory was held than without a plan"))
    assert left.endswith(
        "; left the plan made on the way: in step 7 more memory was held than without a plan"
    )


def test_a_device_that_was_asked_for_nothing_has_no_line() -> None:
    nothing = replace(stats().devices[0].served, hits=0, misses=0)
    assert list(summary.lines(stats(served=nothing))) == []


def test_what_was_simulated_is_read() -> None:
    document = device(0, follows=1) | {"simulated": {"steps": 3, "requested": 4, "reserved": 5, "new": 6}}
    (one,) = statistics.parse({"devices": [document]}).devices
    assert one.simulated == Simulated(steps=3, requested=4, reserved=5)


FILES = autostart.Files({"plan": Path("job.plan"), "save": Path("job.plan")})


def fate(began: SavedPlan, files: autostart.Files = FILES, hits: int = 9, **changes: object) -> str:
    return autostart._fate(with_plan(began, hits=hits, misses=10 - hits, **changes), files)


def test_a_saved_plan_that_was_not_followed_is_named_with_its_reason(tmp_path: Path) -> None:
    template = tmp_path / "job-device{device}.plan"
    files = autostart.Files({"plan": template, "save": template})
    began = SavedPlan(slots=3, removed="in step 3 only 1 of 9 planned requests found their places")
    assert fate(began, files, plans=1) == (
        "did not follow job-device0.plan: in step 3 only 1 of 9 planned requests found their places; "
        "the next run makes another"
    )


@pytest.mark.parametrize(("saved", "end"), [(False, ""), (True, ", saved job.plan for the next run")])
def test_a_run_that_refuses_its_saved_plan_has_followed_its_own(saved: bool, end: str) -> None:
    began = SavedPlan(slots=3, refused="it takes too much", saved=saved)
    assert fate(began) == f"did not follow job.plan: it takes too much; followed a plan made on the way{end}"
    assert fate(began, plans=0) == "did not follow job.plan: it takes too much"


def test_a_plan_that_was_removed_is_not_the_one_that_was_followed_later() -> None:
    lost = "in step 3 only 1 of 9 planned requests found their places"
    began = SavedPlan(slots=3, removed=lost)
    assert fate(began, plans=2) == (
        f"did not follow job.plan: {lost}; then followed a plan made on the way; the next run makes another"
    )


def test_a_saved_plan_that_fitted_was_followed_whatever_came_later(tmp_path: Path) -> None:
    plan = tmp_path / "job.plan"
    plan.touch()
    files = autostart.Files({"plan": plan, "save": plan})
    lost = "in step 61 only 2 of 137 planned requests found their places"
    for hits in (1, 9):
        assert fate(SavedPlan(slots=3), files, hits, plans=1) == "followed job.plan"
        left = fate(SavedPlan(slots=3), files, hits, plans=1, why_no_plan=lost)
        assert left == f"followed job.plan; left it: {lost}"
    twice = fate(SavedPlan(slots=3), files, plans=2)
    assert twice == "followed job.plan; then followed a plan made on the way"
    assert plan.exists(), "the session judges"


def test_a_plan_that_says_that_steps_differ_is_none_to_follow() -> None:
    began = SavedPlan(slots=3, refused="steps differ, and not by lengths")
    assert fate(began, plans=0) == "no plan: steps differ, and not by lengths"
    assert fate(began) == (
        "did not follow job.plan: steps differ, and not by lengths; followed a plan made on the way"
    )


def test_a_plan_that_was_followed_may_be_gone() -> None:
    for began, plans, words in [
        (SavedPlan(slots=3), 1, "followed job.plan, which is no longer there"),
        (SavedPlan(slots=3), 0, "followed no plan"),
        (SavedPlan(), 1, "followed a plan made on the way"),
    ]:
        assert fate(began, plans=plans) == words


def test_a_plan_of_this_run_that_proved_unfit_is_not_said_to_be_saved() -> None:
    first = autostart.Files({"save": Path("job.plan")})
    assert fate(SavedPlan(saved=True), first).endswith("on the way, saved job.plan for the next run")
    assert fate(SavedPlan(removed="lost"), first).endswith("on the way; removed the plan that it had saved")
    assert fate(SavedPlan(), first) == "followed a plan made on the way"


@pytest.mark.parametrize(("slots", "ended"), [(11, True), (10, False)])
def test_a_run_may_end_before_a_step_of_its_plan_is_over(tmp_path: Path, slots: int, ended: bool) -> None:
    plan = tmp_path / "job.plan"
    plan.touch()
    files = autostart.Files({"plan": plan, "save": plan})
    assert (fate(SavedPlan(slots=slots), files) == "ended before a step of job.plan was over") == ended


def test_a_line_is_written_in_one_piece_by_unbuffered_workers_too() -> None:
    program = "from stweaver import console; console.say('a line', 'stweaver, rank 1')"
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "python")}
    reader, writer = os.pipe2(os.O_DIRECT)  # each read gets what one write wrote
    with os.fdopen(reader, "rb", buffering=0) as pipe:
        subprocess.run([sys.executable, "-u", "-c", program], env=environment, stderr=writer, check=True)
        os.close(writer)
        assert pipe.read(4096) == b"stweaver, rank 1: a line\n"
