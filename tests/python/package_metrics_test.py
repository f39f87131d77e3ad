"""Statistics for monitors: flat dictionaries, and text that Prometheus' own parser reads."""

from dataclasses import replace
from typing import Any

import pytest
from conftest import ROOT
from package_api_test import device
from prometheus_client.parser import text_string_to_metric_families
from stweaver import metrics, statistics

GIB = 1 << 30


def stats(*documents: dict[str, Any]) -> statistics.Stats:
    return statistics.parse({"devices": documents})


def test_a_flat_dictionary_has_a_number_for_every_name() -> None:
    numbers = stats(device(0, follows=1)).flat("stweaver/")
    assert set(numbers) == {f"stweaver/{metric.name}" for metric in metrics.METRICS}
    assert {type(number) for number in numbers.values()} == {int, float}
    assert numbers["stweaver/peak_reserved_bytes"] == 100
    assert numbers["stweaver/efficiency"] == 0.8
    assert numbers["stweaver/follows_plan"] == 1
    assert numbers["stweaver/step_seconds"] == 40e-9
    assert numbers["stweaver/driver_calls"] == 6


def test_names_pick_what_is_wanted() -> None:
    assert stats(device(0, follows=1)).flat(names=("hits", "misses")) == {"hits": 3, "misses": 1}


def test_several_devices_have_names_of_their_own() -> None:
    numbers = stats(device(0, follows=1), device(3, follows=0)).flat("m/", ("follows_plan",))
    assert numbers == {"m/device0/follows_plan": 1, "m/device3/follows_plan": 0}


def test_before_the_first_request_there_are_no_numbers() -> None:
    assert stats().flat() == {}


def test_prometheus_reads_every_metric_with_its_type_and_labels() -> None:
    ours = stats(device(0, follows=1), device(1, follows=0))
    text = ours.prometheus({"rank": 3, "job": 'a "b"\\\n'})
    families = {family.name: family for family in text_string_to_metric_families(text)}
    assert len(families) == len(metrics.METRICS)
    for metric, number in zip(metrics.METRICS, ours.flat(names=None).values(), strict=False):
        family = families[f"stweaver_{metric.name}"]
        assert (family.type, family.documentation) == (metric.kind, metric.meaning)
        assert [sample.labels for sample in family.samples] == [
            {"device": name, "rank": "3", "job": 'a "b"\\\n'} for name in ("0", "1")
        ]
        assert family.samples[0].value == number


def test_prometheus_takes_sizes_beyond_32_bits_to_the_byte() -> None:
    one = stats(device(0, follows=1)).devices[0]
    text = statistics.Stats((replace(one, reserved=140 * GIB + 1),), ()).prometheus()
    values = [
        sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name == "stweaver_reserved_bytes"
    ]
    assert values == [140 * GIB + 1]


def test_every_metric_is_documented() -> None:
    page = (ROOT / "docs" / "python.md").read_text()
    assert [metric.name for metric in metrics.METRICS if f"`{metric.name}`" not in page] == []


@pytest.mark.parametrize("name", ["", "a b", "1st", "device"])
def test_a_label_that_prometheus_would_refuse_is_an_error(name: str) -> None:
    with pytest.raises(ValueError, match="cannot be a label"):
        stats(device(0, follows=1)).prometheus({name: 1})
