"""The command's advise: its documents, and what it refuses."""

import json
from pathlib import Path

import pytest
from conftest import Answer, Run

LAYOUTS = ["1,1", "2,1", "4,1", "1,2"]
PEAKS = "gpu,gpus,layers,hidden,heads,seq,vocab,tp,pp,mbs,gbs,stage,compiled,peak_allocated_bytes\n"
HEADER = "gpu,gpus,layers,hidden,heads,seq,tp,pp,mbs,gbs,iteration_ms\n"


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "measured.csv"
    path.write_text(HEADER + "".join(f"A100,8,24,2048,16,1024,{layout},2,64,700\n" for layout in LAYOUTS))
    return path


def test_prediction_stands_beside_every_measured_row(answer: Answer, table: Path) -> None:
    document = answer("advise", "--predict", table)
    rows = document["predictions"]
    assert document["rows"] == len(rows) == len(LAYOUTS)
    assert [row["line"] for row in rows] == [2, 3, 4, 5]
    assert [row["measured_seconds"] for row in rows] == [0.7] * len(LAYOUTS)
    errors = [abs(row["predicted_seconds"] / row["measured_seconds"] - 1) for row in rows]
    assert document["mean_absolute_error"] == pytest.approx(sum(errors) / len(errors))


def test_fitted_constants_predict_better_and_can_be_used_again(
    answer: Answer, table: Path, tmp_path: Path
) -> None:
    before = answer("advise", "--predict", table)["mean_absolute_error"]
    constants = tmp_path / "constants.json"
    fitted = answer("advise", "--fit", table, "-o", constants)
    assert fitted["mean_absolute_error"] < before
    after = answer("advise", "--predict", table, "--constants", constants)
    assert after["mean_absolute_error"] == pytest.approx(fitted["mean_absolute_error"])


def test_fit_changes_only_what_it_may(answer: Answer, table: Path, tmp_path: Path) -> None:
    constants = tmp_path / "constants.json"
    assert list(answer("advise", "--fit", table, "--only", "layer")["constants"]) == ["layer"]
    answer("advise", "--fit", table, "--only", "layer,step", "-o", constants)
    assert json.loads(constants.read_text())["matrix_bf16"] > 0


def test_choices_say_what_they_cost(answer: Answer) -> None:
    document = answer(
        "advise", "llama3_8b", "--gpus", "8", "--gpu", "h100", "--choices", "3", "--fix", "tp=2"
    )
    assert document["evaluations"] > 0
    assert 0 < len(document["choices"]) <= 3
    times = [choice["step_seconds"] for choice in document["choices"]]
    assert times == sorted(times)
    for choice in document["choices"]:
        configuration = choice["configuration"]
        assert configuration["tp"] == 2
        ranks = configuration["tp"] * configuration["pp"] * configuration["cp"] * configuration["dp"]
        assert ranks == configuration["gpus"] <= 8
        assert choice["requested"] <= choice["reserved"] <= document["max_memory"]
        tokens = configuration["global_batch"] * configuration["sequence"]
        assert choice["tokens_per_second"] == pytest.approx(tokens / choice["step_seconds"])
        assert "--tensor-model-parallel-size 2" in choice["megatron"]


def test_a_search_of_a_large_space_stays_in_its_budget(answer: Answer) -> None:
    document = answer(
        "advise", "llama3_70b", "--gpus", "256", "--gpu", "h100", "--evaluations", "3000", "--choices", "2"
    )
    assert document["exhaustive"] is False
    assert 3000 <= document["evaluations"] < 3200
    whole = answer("advise", "llama3_70b", "--gpus", "256", "--gpu", "h100", "--exhaustive", "--choices", "2")
    assert whole["exhaustive"] is True
    assert whole["evaluations"] > 30_000
    assert whole["choices"][0]["step_seconds"] <= document["choices"][0]["step_seconds"]


def test_objectives_are_chosen(answer: Answer) -> None:
    given = ["advise", "llama3_8b", "--gpus", "8", "--gpu", "h100", "--choices", "1"]
    fastest = answer(*given, "--objective", "time")["choices"][0]
    longest = answer(*given, "--objective", "headroom")["choices"][0]
    assert longest["headroom"] > fastest["headroom"]
    assert longest["step_seconds"] > fastest["step_seconds"]


def test_costs_are_in_hours_or_in_the_money_that_is_named(answer: Answer, stweaver: Run) -> None:
    given = ["advise", "llama3_8b", "--gpus", "8", "--gpu", "h100", "--choices", "1"]
    choice = answer(*given)["choices"][0]
    hours = choice["configuration"]["gpus"] / choice["tokens_per_second"] * 1e9 / 3600
    assert choice["gpu_hours_per_billion_tokens"] == pytest.approx(hours)
    assert "GPU h/Gtoken" in stweaver(*given).stdout
    assert "price/Gtoken" in stweaver(*given, "--price", "2.5").stdout


def test_a_model_may_be_a_configuration_file(answer: Answer, tmp_path: Path) -> None:
    config = tmp_path / "config.json"
    config.write_text(
        json.dumps(
            {
                "num_hidden_layers": 4,
                "hidden_size": 512,
                "num_attention_heads": 8,
                "vocab_size": 32000,
                "intermediate_size": 2048,
            }
        )
    )
    assert answer("advise", config, "--gpus", "1", "--gpu", "a100", "--choices", "1")["choices"]


def test_the_answer_is_no_when_nothing_fits(answer: Answer) -> None:
    document = answer("advise", "llama31_405b", "--gpus", "1", "--gpu", "h100", status=1)
    assert document["choices"] == []
    assert document["evaluations"] > 0


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ([], "wants one of"),
        (["llama3_8b"], "--gpus"),
        (["no_such_model", "--gpus", "8", "--gpu", "h100"], "no model of this name"),
        (["llama3_8b", "--gpus", "8", "--gpu", "v200"], "no figures for the GPU"),
        (["llama3_8b", "--gpus", "8", "--gpu", "h100", "--fix", "tp"], "not of the form"),
        (["llama3_8b", "--gpus", "8", "--gpu", "h100", "--fix", "tp=x"], "whole number"),
        (["llama3_8b", "--gpus", "8", "--gpu", "h100", "--precision", "fp5"], "precision"),
        (["llama3_8b", "--gpus", "8", "--gpu", "h100", "--objective", "speed"], "time memory gpus"),
        (["--predict", "missing.csv"], "missing.csv"),
    ],
)
def test_bad_usage_is_refused_in_one_line(stweaver: Run, arguments: list[str], complaint: str) -> None:
    result = stweaver("advise", *arguments)
    assert result.returncode == 2
    assert result.stderr.count("\n") == 1
    assert complaint in result.stderr
    assert result.stdout == ""


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        ("", "empty"),
        ("a,b\n1,2\n", "columns must be"),
        (HEADER + "A100,8,24\n", ":2: 3 cells"),
        (HEADER + "A100,eight,24,2048,16,1024,1,1,2,64,700\n", ":2: gpus is no number"),
        (HEADER + "A100,8,24,2048,16,1024,1,1,2,64,-1\n", "no time"),
        (HEADER + "A100,8,24,2048,16,1024,1,1,2,64,nan\n", "no number"),
        (PEAKS + "H100,8,24,2048,16,1024,50257,1,2,2,64,0,1,0\n", "no memory"),
        (HEADER + "A100,8,1e99,2048,16,1024,1,1,2,64,1\n", "whole number"),
    ],
)
def test_a_bad_table_is_refused_in_one_line(
    stweaver: Run, tmp_path: Path, content: str, complaint: str
) -> None:
    path = tmp_path / "table.csv"
    path.write_text(content)
    result = stweaver("advise", "--predict", path)
    assert result.returncode == 2
    assert result.stderr.count("\n") == 1
    assert complaint in result.stderr


def test_peaks_are_predicted_beside_measured_ones(answer: Answer, stweaver: Run, tmp_path: Path) -> None:
    table = tmp_path / "peaks.csv"
    rows = "H100,8,24,2048,16,1024,50257,1,2,2,64,0,1,1e10\nH100,8,24,2048,16,1024,50257,1,2,2,64,1,0,2e10\n"
    table.write_text(PEAKS + rows)
    document = answer("advise", "--predict", table)
    predictions = document["predictions"]
    assert [row["measured_bytes"] for row in predictions] == [10**10, 2 * 10**10]
    errors = [abs(row["predicted_bytes"] / row["measured_bytes"] - 1) for row in predictions]
    assert document["mean_absolute_memory_error"] == pytest.approx(sum(errors) / 2)
    assert "mean_absolute_error" not in document
    assert "memory of 2 rows" in stweaver("advise", "--predict", table).stdout
    refused = stweaver("advise", "--fit", table)
    assert refused.returncode == 2
    assert "no times" in refused.stderr


def test_constants_that_mean_nothing_are_refused(stweaver: Run, table: Path, tmp_path: Path) -> None:
    constants = tmp_path / "constants.json"
    for content in ["[]", '{"speed": 1}', '{"layer": "x"}', '{"matrix_bf16": 7}']:
        constants.write_text(content)
        result = stweaver("advise", "--predict", table, "--constants", constants)
        assert result.returncode == 2
        assert result.stderr.count("\n") == 1
