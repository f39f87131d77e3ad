"""`stweaver.advise`: the command's answer as typed values."""

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
import stweaver
from stweaver.advisor import Advice, Choice, Configuration


def test_choices_are_typed_and_hold_to_what_is_fixed() -> None:
    advice = stweaver.advise("llama3_8b", gpus=8, gpu="h100", fix={"tp": 2, "recompute": "full"}, choices=3)
    assert 0 < len(advice.choices) <= 3
    assert advice.exhaustive
    assert advice.front >= len(advice.choices)
    for choice in advice.choices:
        assert isinstance(choice, Choice)
        assert isinstance(choice.configuration, Configuration)
        assert choice.configuration.tp == 2
        assert choice.configuration.recompute == "full"
        assert choice.requested <= choice.reserved <= choice.reserved_native


def test_objectives_and_limits_are_passed_on() -> None:
    given = partial(
        stweaver.advise, "llama3_8b", gpus=8, gpu="h100", choices=1, sequence=4096, global_batch=64
    )
    fastest = given(objectives=["time"]).choices[0]
    small = given(objectives=["time"], max_memory=20, exhaustive=True).choices[0]
    assert small.reserved <= 20 * 2**30
    assert small.step_seconds > fastest.step_seconds
    assert small.configuration.global_batch == 64


def test_a_path_that_is_no_text_is_an_error_in_words() -> None:
    with pytest.raises(stweaver.Error, match="gone"):
        stweaver.advise(os.fsdecode(b"gone\xff.json"), gpus=8, gpu="h100")


def test_software_that_is_not_asked_for_has_no_settings() -> None:
    given = partial(stweaver.advise, "llama3_8b", gpus=8, gpu="h100", choices=1)
    choice = given(software=["deepspeed"]).choices[0]
    assert choice.deepspeed is not None
    assert choice.megatron is None
    assert choice.torchtitan is None
    assert given(modules="pytorch").choices[0].deepspeed is None


def test_a_cluster_constants_and_recordings_are_passed_on(tmp_path: Path) -> None:
    given = partial(stweaver.advise, "llama3_8b", gpus=16, gpu="h100", choices=1, objectives=["time"])
    slow = given(nodes=8, link="pcie4", network=5, allocator="default").choices[0]
    assert slow.step_seconds > given().choices[0].step_seconds
    constants = tmp_path / "constants.json"
    constants.write_text('{"matrix": 0.5}')
    assert given(constants=constants).choices[0].step_seconds > given().choices[0].step_seconds
    with pytest.raises(stweaver.Error, match="not of the form"):
        given(calibrate=["rank.pickle"])


def test_nothing_that_fits_is_an_empty_answer() -> None:
    assert stweaver.advise("llama31_405b", gpus=1, gpu="h100").choices == ()


def test_what_makes_no_sense_is_an_error_of_one_line() -> None:
    with pytest.raises(stweaver.Error, match="no figures for the GPU v200") as error:
        stweaver.advise("llama3_8b", gpus=8, gpu="v200")
    assert "\n" not in str(error.value)
    given: Callable[..., Advice] = partial(stweaver.advise, "llama3_8b", gpus=8, gpu="h100")
    for name in ("calibrate", "software", "objectives"):
        with pytest.raises(stweaver.Error, match=f"{name}='time': a list of names, such as "):
            given(**{name: "time"})


def test_a_parameter_may_be_true_or_false() -> None:
    advice = stweaver.advise("llama3_8b", gpus=8, gpu="h100", fix={"offload": True}, choices=1)
    assert advice.choices[0].configuration.offload_optimizer
