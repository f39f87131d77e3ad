"""The command's advise: its documents, and what it refuses."""

import json
from itertools import pairwise
from pathlib import Path

import pytest
from conftest import TRACES, Answer, Run

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


def test_a_models_name_in_a_table_is_safe_for_a_terminal(stweaver: Run, tmp_path: Path) -> None:
    path = tmp_path / "measured.csv"
    path.write_text(
        "model,gpu,gpus,precision,layers,hidden,heads,vocab,gbs,mbs,seq,tp,pp,tokens_per_s_per_gpu\n"
        "a\x1b[31m,h100,8,bf16,4,512,8,32000,8,1,4096,1,1,5\n"
    )
    shown = stweaver("advise", "--predict", path).stdout
    assert "a?[31m" in shown
    assert "\x1b" not in shown


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
    assert json.loads(constants.read_text())["matrix"] > 0


def test_fit_tells_kinds_of_layers_that_were_measured_twice(
    stweaver: Run, answer: Answer, tmp_path: Path
) -> None:
    # Wide layers take half as long again as narrow ones beside what the constants say, at two depths.
    table, constants = tmp_path / "measured.csv", tmp_path / "constants.json"
    shapes = [(12, 2048), (24, 2048), (12, 3072), (24, 3072)]
    rows = "".join(f"A100,8,{depth},{hidden},16,1024,2,1,2,64,700\n" for depth, hidden in shapes)
    table.write_text(HEADER + rows)
    predicted = [row["predicted_seconds"] for row in answer("advise", "--predict", table)["predictions"]]
    times = [1000 * time * factor for time, factor in zip(predicted, [1, 1, 1.5, 1.5], strict=True)]
    table.write_text(
        HEADER
        + "".join(
            f"A100,8,{depth},{hidden},16,1024,2,1,2,64,{time}\n"
            for (depth, hidden), time in zip(shapes, times, strict=True)
        )
    )
    fitted = answer("advise", "--fit", table, "--only", "layers", "-o", constants)
    assert fitted["constants"] == {}
    assert fitted["layers"] >= 2
    after = answer("advise", "--predict", table, "--constants", constants)
    assert after["mean_absolute_error"] < 0.02
    text = stweaver("advise", "--fit", table, "--only", "layers").stdout
    assert text.startswith("2 of 2 kinds of layers take")
    table.write_text(HEADER + "A100,8,12,2560,16,1024,2,1,2,64,700\n")
    assert stweaver("advise", "--fit", table, "--only", "layers").stdout.startswith("no kind of layer has")


def test_choices_say_what_they_cost(answer: Answer) -> None:
    document = answer(
        "advise", "--fix", "tp=2", "llama3_8b", "--gpus", "8", "--gpu", "h100", "--choices", "3"
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


def test_a_cluster_is_described_by_nodes_links_and_network(answer: Answer) -> None:
    given = ["advise", "llama3_8b", "--gpu", "h100", "--choices", "1", "--objective", "time"]
    usual = answer(*given, "--nodes", "2", "--fix", "gpus=16", "--fix", "tp=8")["choices"][0]
    assert usual["configuration"]["gpus"] == 16  # nodes of eight
    assert usual == answer(*given, "--gpus", "16", "--fix", "gpus=16", "--fix", "tp=8")["choices"][0]
    for worse in (["--link", "pcie4"], ["--network", "1"]):
        slow = answer(*given, "--nodes", "2", "--fix", "gpus=16", "--fix", "tp=8", *worse)["choices"][0]
        assert slow["step_seconds"] > usual["step_seconds"]
    narrow = answer(*given, "--gpus", "16", "--nodes", "8")["choices"][0]
    assert narrow["configuration"]["tp"] <= 2


def test_the_peak_that_has_to_fit_is_that_of_the_allocator_in_use(answer: Answer) -> None:
    given = ["advise", "llama3_8b", "--gpus", "16", "--gpu", "h100", "--max-memory", "40"]
    limit = 40 * 2**30
    planned = answer(*given)["choices"]
    default = answer(*given, "--allocator", "default")["choices"]
    assert all(choice["reserved"] <= limit for choice in planned)
    assert any(choice["reserved_native"] > limit for choice in planned)
    assert all(choice["reserved_native"] <= limit for choice in default)
    fitting = [choice for choice in planned if choice["reserved_native"] <= limit]
    known = [choice["configuration"] for choice in fitting]  # what plans need depends on the time to search
    assert [choice for choice in default[1:] if choice["configuration"] not in known] == []
    assert default[0]["step_seconds"] <= fitting[0]["step_seconds"]


def test_the_fastest_that_fits_comes_first_however_many_are_shown(answer: Answer) -> None:
    given = ["advise", "qwen3_30b_a3b", "--gpus", "16", "--gpu", "h100", "--allocator", "default"]
    shown = [answer(*given, "--choices", str(count))["choices"] for count in (1, 3, 12)]
    assert [len(choices) <= count for choices, count in zip(shown, (1, 3, 12), strict=True)] == [True] * 3
    assert shown[0][0] == shown[1][0] == shown[2][0]


def test_a_choice_says_what_it_has_on_the_host(answer: Answer, stweaver: Run) -> None:
    given = ["advise", "llama3_8b", "--gpus", "8", "--gpu", "h100", "--fix", "zero=1", "--choices", "1"]
    assert answer(*given, "--fix", "offload=0")["choices"][0]["host"] == 0
    given += ["--fix", "offload=1", "--fix", "gpus=8", "--fix", "tp=1", "--fix", "pp=1"]
    host = answer(*given)["choices"][0]["host"]
    assert host == pytest.approx(12 * 8.03e9 / 8, rel=0.001)  # 12 bytes for each parameter, shared by all
    assert f" {host / 2**30:.1f} GiB offloaded" in stweaver(*given).stdout


ALONE = ["gpus=8", "tp=1", "pp=1", "cp=1", "zero=1", "offload=0"]  # one of eight that share an optimizer


def test_modules_of_pytorch_need_what_a_table_of_peaks_says_of_them(answer: Answer, tmp_path: Path) -> None:
    peaks, model = tmp_path / "peaks.csv", tmp_path / "config.json"
    peaks.write_text(
        f"sharding,{PEAKS}" + "distributed_optimizer,H200,8,12,1024,16,1024,50304,1,1,4,64,0,0,1\n"
    )
    shape = {"num_hidden_layers": 12, "hidden_size": 1024, "num_attention_heads": 16, "vocab_size": 50304}
    model.write_text(json.dumps({"model_type": "gpt2"} | shape))
    predicted = answer("advise", "--predict", peaks)["predictions"][0]["predicted_bytes"]
    given = ["advise", model, "--gpus", "8", "--gpu", "h200", "--sequence", "1024", "--global-batch", "64"]
    for setting in (*ALONE, "mbs=4", "recompute=none"):
        given += ["--fix", setting]
    fused = answer(*given)["choices"][0]
    plain = answer(*given, "--modules", "pytorch")["choices"][0]
    assert plain["requested"] == predicted > fused["requested"]
    assert "megatron" not in plain


def test_modules_that_are_not_known_are_refused_with_those_that_are(stweaver: Run) -> None:
    refused = stweaver("advise", "llama3_8b", "--gpus", "8", "--gpu", "h100", "--modules", "jax")
    assert refused.returncode == 2
    assert "no kind of modules is called jax; there are megatron pytorch" in refused.stderr


def test_all_that_there_is_has_the_fastest_that_fits(answer: Answer, tmp_path: Path) -> None:
    model = tmp_path / "config.json"
    shape = {"num_hidden_layers": 24, "hidden_size": 2048, "num_attention_heads": 16, "vocab_size": 32000}
    model.write_text(json.dumps(shape))
    given = ["advise", model, "--gpus", "8", "--gpu", "h200", "--modules", "pytorch", "--sequence", "8192"]
    given += ["--global-batch", "16", "--allocator", "default", "--choices", "1"]
    for setting in ALONE:
        given += ["--fix", setting]
    speeds = []
    for limit in (24, 28, 32):
        choice = answer(*given, "--max-memory", str(limit), "--exhaustive")["choices"][0]
        assert choice["reserved_native"] <= limit * 2**30
        usual = answer(*given, "--max-memory", str(limit))["choices"]
        assert all(choice["step_seconds"] <= other["step_seconds"] for other in usual)
        speeds.append(choice["tokens_per_second"])
    assert speeds == sorted(set(speeds))  # the next faster one is never missed where memory grows this much


def test_choices_and_settings_are_those_of_the_software_in_use(answer: Answer, stweaver: Run) -> None:
    given = ["advise", "llama3_8b", "--gpus", "8", "--gpu", "h100"]
    for keys in (["torchtitan"], ["deepspeed"], ["megatron", "deepspeed"]):
        found = answer(*given, "--software", ",".join(keys))
        assert len(found["choices"]) > 1
        assert all(any(choice[key] for key in keys) for choice in found["choices"])
        assert "megatron" in keys or "megatron" not in found["choices"][0]
    torchtitan = answer(*given, "--software", "torchtitan")["choices"]
    assert torchtitan == answer(*given, "--software", "torchtitan", "--modules", "pytorch")["choices"]
    text = stweaver(*given, "--software", "torchtitan").stdout
    assert "for torchtitan:" in text
    assert "for Megatron-LM:" not in text
    text = stweaver(*given, "--fix", "zero=1").stdout
    assert "torchtitan can run none of these; --software torchtitan looks for what it can" in text
    refused = stweaver(*given, "--software", "torchtitan", "--fix", "offload=1")
    assert refused.returncode == 2
    assert "offload=1: no configuration has it here; it can be 0" in refused.stderr
    refused = stweaver(*given, "--software", "torchtitan", "--precision", "fp8")
    assert "no software that is named runs fp8 here; it can be bf16" in refused.stderr


@pytest.mark.parametrize(
    ("fixed", "told"),
    [
        ("vp=1", "--decoder-first-pipeline-num-layers 7 --decoder-last-pipeline-num-layers 7"),
        ("vp=4", "--account-for-embedding-in-pipeline-split --account-for-loss-in-pipeline-split"),
    ],
)
def test_layers_that_do_not_come_out_even_are_shared_out_as_megatron_is_told(
    answer: Answer, fixed: str, told: str
) -> None:
    given = ["advise", "llama31_405b", "--gpus", "1024", "--gpu", "h100", "--choices", "2"]
    choices = answer(*given, "--fix", "pp=16", "--fix", fixed)["choices"]
    assert choices
    assert all(told in choice["megatron"] for choice in choices)


@pytest.mark.parametrize("fixed", ["zero=2", "recompute=operators"])
def test_what_megatron_cannot_do_has_no_settings_for_it(answer: Answer, fixed: str) -> None:
    given = ["advise", "llama3_8b", "--gpus", "8", "--gpu", "h100", "--choices", "2", "--fix", fixed]
    assert [choice["megatron"] for choice in answer(*given)["choices"]] == [None, None]


def test_what_recomputes_nothing_is_no_recomputation(stweaver: Run) -> None:
    given = ["advise", "llama3_8b", "--gpus", "8", "--gpu", "h100", "--fix", "recompute=selective"]
    refused = stweaver(*given)
    assert refused.returncode == 2
    assert "recompute=selective: no configuration has it here; it can be none full" in refused.stderr
    assert stweaver(*given, "--modules", "pytorch").returncode == 0, "their norms stand alone"


@pytest.mark.parametrize(("sequence", "batch"), [(8192, 512), (6000, 768), (131072, 24)])
def test_the_batch_that_is_assumed_is_one_that_all_gpus_share(
    answer: Answer, stweaver: Run, sequence: int, batch: int
) -> None:
    gpus = "64" if sequence == 8192 else "96"
    given = ["advise", "llama3_8b", "--gpus", gpus, "--gpu", "h200", "--choices", "1"]
    given += ["--sequence", str(sequence)]
    configuration = answer(*given)["choices"][0]["configuration"]
    assert (configuration["global_batch"], configuration["sequence"]) == (batch, sequence)
    assert f"a step takes {batch} sequences of {sequence} tokens" in stweaver(*given).stdout


def test_tables_of_shapes_may_have_virtual_stages_and_sequence_parallelism(
    answer: Answer, tmp_path: Path
) -> None:
    table = tmp_path / "steps.csv"
    rows = ["vp,sp," + HEADER.strip()]
    rows += [f"{vp},{sp},A100,64,96,12288,96,2048,8,8,1,64,18000" for vp, sp in ((1, 0), (3, 0), (3, 1))]
    table.write_text("\n".join(rows) + "\n")
    plain, interleaved, split = answer("advise", "--predict", table)["predictions"]
    assert interleaved["predicted_seconds"] < plain["predicted_seconds"], "its bubble is shorter"
    assert split["predicted_seconds"] < interleaved["predicted_seconds"], (
        "ranks share what lies between regions"
    )


@pytest.mark.parametrize("modules", ["megatron", "pytorch"])
def test_no_fp8_is_slower_than_bf16(answer: Answer, modules: str) -> None:
    given = ["advise", "llama3_8b", "--gpus", "8", "--gpu", "b200", "--modules", modules, "--choices", "1"]
    given += [part for setting in [*ALONE, "mbs=4", "recompute=full"] for part in ("--fix", setting)]
    seconds = {
        precision: answer(*given, "--precision", precision)["choices"][0]["step_seconds"]
        for precision in ("bf16", "fp8", "mxfp8", "nvfp4")
    }
    assert seconds["nvfp4"] < seconds["fp8"] < seconds["bf16"]
    assert seconds["mxfp8"] < seconds["bf16"]


def test_slower_links_take_longer_where_they_are_used(answer: Answer) -> None:
    given = ["advise", "llama3_8b", "--gpus", "8", "--choices", "1"]
    for setting in ("dp=1", "pp=1", "cp=1", "mbs=1", "recompute=full", "offload=1"):
        given += ["--fix", setting]

    def seconds(gpu: str, tp: int) -> float:
        choices = answer(*given, "--gpu", gpu, "--fix", f"tp={tp}")["choices"]
        return float(choices[0]["step_seconds"])

    assert seconds("h800", 8) > seconds("h100", 8)
    assert seconds("a800", 1) == seconds("a100", 1)


def test_recorded_ranks_calibrate_the_memory_model(answer: Answer, stweaver: Run) -> None:
    ran = "gpus=32,pp=4,sequence=4096,stage=0"
    recorded = [
        f"{TRACES}/llama7b_N.pickle.xz:{ran},mbs=1,global_batch=64",
        f"{TRACES}/llama7b_R.pickle.xz:{ran},mbs=4,global_batch=512,recompute=full",
    ]
    given = ["advise", "llama2_7b", "--gpus", "32", "--gpu", "h200", "--choices", "2", "--fix", "pp=4"]
    document = answer(*given, "--calibrate", *recorded)
    calibration = document["calibration"]
    assert calibration["states"] == pytest.approx(1, abs=0.01)
    assert 1.1 < calibration["activations"] < 1.4
    ranks = calibration["ranks"]
    assert [rank["name"] for rank in ranks] == ["llama7b_N", "llama7b_R"]
    assert sum(error(rank, "after") for rank in ranks) < 0.6 * sum(error(rank, "before") for rank in ranks)
    assert error(ranks[1], "left_out") < error(ranks[1], "before") * 2
    memory = [choice["live"] for choice in document["choices"]]
    assert memory != [choice["live"] for choice in answer(*given)["choices"]]
    assert "% before" in stweaver(*given, "--calibrate", *recorded).stdout


def test_a_recording_of_another_model_is_refused_in_one_line(stweaver: Run) -> None:
    trace = f"{TRACES}/llama7b_N.pickle.xz:pp=4,mbs=1,global_batch=64,sequence=4096"
    result = stweaver("advise", "llama3_70b", "--gpus", "32", "--gpu", "h200", "--calibrate", trace)
    assert result.returncode == 2
    assert result.stderr.count("\n") == 1
    assert "another model or layout" in result.stderr


def error(rank: dict[str, float], kind: str) -> float:
    return abs(rank[kind] / rank["measured"] - 1)


@pytest.mark.parametrize(
    ("ran", "complaint"),
    [
        ("pp=4,stage=4", "stage=4"),
        ("pq=4", "no such parameter"),
        ("pp=5", "llama7b_N"),
        (
            "pp=4,recompute=full,recompute_layers=9",
            "recompute_layers=9: with recompute=full it can be 1 to 8",
        ),
        ("pp=4,recompute_layers=1", "with recompute=full"),
        ("tp", "not of the form"),
    ],
)
def test_a_recording_of_no_job_is_refused_in_one_line(stweaver: Run, ran: str, complaint: str) -> None:
    trace = f"{TRACES}/llama7b_N.pickle.xz:{ran}"
    result = stweaver("advise", "llama2_7b", "--gpus", "32", "--gpu", "h200", "--calibrate", trace)
    assert result.returncode == 2
    assert result.stderr.count("\n") == 1
    assert complaint in result.stderr


def test_a_model_may_be_a_configuration_file(answer: Answer, stweaver: Run, tmp_path: Path) -> None:
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
    for given in (config, tmp_path):  # or the folder that it is in
        assert answer("advise", given, "--gpus", "1", "--gpu", "a100", "--choices", "1")["choices"]
        refused = stweaver("advise", given, "--gpus", "1", "--gpu", "a100", "-o", config)
        assert "would be written over" in refused.stderr


def test_where_no_plan_of_the_choices_fits_others_are_looked_at(answer: Answer) -> None:
    given = ["advise", "llama3_70b", "--gpus", "64", "--gpu", "h100", "--choices", "1"]
    (choice,) = answer(*given)["choices"]
    assert choice["live"] < choice["reserved"]
    # It lives in that much, and its plan does not fit.
    limit = (choice["live"] + choice["reserved"]) / 2
    (other,) = answer(*given, "--max-memory", str(limit / 2**30))["choices"]
    assert other["reserved"] <= limit


def test_where_the_one_choice_of_a_front_does_not_fit_others_are_looked_for(answer: Answer) -> None:
    given = [
        "advise",
        "llama3_8b",
        "--gpus",
        "64",
        "--gpu",
        "h200",
        "--sequence",
        "4096",
        "--allocator",
        "default",
    ]
    given += ["--objective", "time", "--choices", "1"]
    (choice,) = answer(*given)["choices"]
    limit = (choice["live"] + choice["reserved_native"]) / 2
    (other,) = answer(*given, "--max-memory", str(limit / 2**30))["choices"]
    assert other["reserved_native"] <= limit


def test_the_answer_is_no_when_nothing_fits(answer: Answer) -> None:
    document = answer("advise", "llama31_405b", "--gpus", "1", "--gpu", "h100", status=1)
    assert document["choices"] == []
    assert document["evaluations"] > 0


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ([], "wants one of"),
        (["llama3_8b"], "--gpus"),
        (["no_such_model", "--gpus", "8", "--gpu", "h100"], "one of gpt2_345m"),
        (["llama3_8b", "--gpus", "8", "--gpu", "v200"], "no figures for the GPU"),
        (["llama3_8b", "--gpus", "8", "--gpu", "h100", "--fix", "tp"], "not of the form"),
        (["llama3_8b", "--gpus", "8", "--gpu", "h100", "--fix", "tp=x"], "whole number"),
        (["llama3_8b", "--gpus", "8", "--gpu", "h100", "--fix", "tp=3"], "can be 1 2 4 8"),
        (["llama3_8b", "--gpus", "8", "--gpu", "h100", "--fix", "gpus=16"], "can be 1 2 4 8"),
        (["llama3_8b", "--gpus", "8", "--gpu", "h100", "--fix", "offload=7"], "can be 0 1"),
        (["llama3_8b", "--gpus", "8", "--gpu", "h100", "--precision", "fp5"], "precision"),
        (["llama3_8b", "--gpus", "8", "--gpu", "a100", "--precision", "fp8"], "can be bf16"),
        (["llama3_8b", "--gpus", "8", "--gpu", "h100", "--precision", "nvfp4"], "can be bf16 fp8"),
        (["llama3_8b", "--gpus", "8", "--gpu", "h100", "--objective", "speed"], "time memory gpus"),
        (["--predict", "missing.csv"], "missing.csv"),
        (["--predict", "missing.csv", "--gpus", "8"], "--gpus: says nothing of the rows of a table"),
        (["llama3_8b", "--fit", "missing.csv"], "MODEL: says nothing of the rows of a table"),
        (["llama3_8b", "--gpus", "8", "--gpu", "h100", "--link", "pcie"], "nvlink pcie3"),
        (["llama3_8b", "--gpus", "8", "--gpu", "h100", "--nodes", "3"], "nodes must be alike"),
        (["llama3_8b", "--nodes", "1000000", "--gpu", "gb200"], "more than"),
        (["llama3_8b", "--gpus", "8", "--gpu", "h100", "--network", "0"], "--network"),
        (["llama3_8b", "--gpus", "8", "--gpu", "h100", "--allocator", "jemalloc"], "default expandable"),
        (["llama3_8b", "--gpus", "8", "--gpu", "h100", "--software", "jax"], "megatron torchtitan"),
        (["llama3_8b", "--gpus", "8", "--gpu", "h100", "--calibrate", "x.pickle"], "not of the form"),
        (["llama3_8b", "--gpus", "8", "--gpu", "h100", "--calibrate", "x.pickle:tp=1"], "x.pickle"),
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
        ("a,b\n1,2\n", "it lacks model"),
        (HEADER.replace(",", ";"), "commas part the cells"),
        (HEADER.replace("mbs,", ""), "it lacks mbs; or"),
        (HEADER + "A100,8,24\n", ":2: 3 cells"),
        (HEADER + "A100,eight,24,2048,16,1024,1,1,2,64,700\n", "line 2: gpus is no number"),
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


def test_steps_of_no_time_are_named_and_left_out(answer: Answer, tmp_path: Path) -> None:
    table = tmp_path / "rates.csv"
    head = "model,gpu,gpus,precision,gbs,mbs,seq,tp,pp,tokens_per_s_per_gpu\n"
    rows = [f"llama3_8b,H100,8,{cells}\n" for cells in ("bf16,64,1,8192,1,1,0", "bf16,64,1,8192,1,1,10000")]
    table.write_text(head + "".join(rows))
    document = answer("advise", "--predict", table)
    assert [row["line"] for row in document["predictions"]] == [3]
    (left_out,) = document["left_out"]
    assert left_out.startswith("line 2: a step that takes no time")


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


def test_a_table_of_peaks_tells_models_by_name_and_their_precision(answer: Answer, tmp_path: Path) -> None:
    table = tmp_path / "peaks.csv"
    head = PEAKS.replace("gpu,", "model,sharding,offload,gradient_bytes,moment_bytes,gpu,", 1)
    rows = ["0,4,4", "0,2,4", "0,2,2", "1,2,2"]
    shape = "H100,8,1,1,1,4096,1,2,2,1,64,fullest,1,1e10"
    table.write_text(head + "".join(f"llama2_7b,distributed_optimizer,{row},{shape}\n" for row in rows))
    predictions = answer("advise", "--predict", table)["predictions"]
    peaks = [row["predicted_bytes"] for row in predictions]
    parameters = 6.74e9 / 4  # of a rank, whose optimizer states two share
    saved = [before - after for before, after in pairwise(peaks)]
    assert saved == pytest.approx([2 * parameters, 2 * parameters, 4 * parameters], rel=0.05)


def test_constants_that_mean_nothing_are_refused(stweaver: Run, table: Path, tmp_path: Path) -> None:
    constants = tmp_path / "constants.json"
    for content in ["[]", '{"speed": 1}', '{"layer": "x"}', '{"matrix": 7}', '{"layers": [{"gpu": 1}]}']:
        constants.write_text(content)
        result = stweaver("advise", "--predict", table, "--constants", constants)
        assert result.returncode == 2
        assert result.stderr.count("\n") == 1
