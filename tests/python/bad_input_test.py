"""Bad input: one clear line on standard error, nothing on standard output, exit status 2. Never a crash."""

import json
import lzma
import os
import pickle
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import TRACES, Answer, Run

SMALL_CSV = "id,lower,upper,size\n0,0,10,4096\n1,2,5,1024\n2,5,9,2048\n"


def snapshot_of(*device_traces: list[dict[str, Any]]) -> dict[str, Any]:
    return {"segments": [], "device_traces": list(device_traces), "allocator_settings": {}}


def event(action: str, address: int, size: int) -> dict[str, Any]:
    return {"action": action, "addr": address, "size": size, "stream": 0, "frames": [], "time_us": 0}


def small_snapshot() -> dict[str, Any]:
    """Make a snapshot of sixteen short-lived requests."""
    events = []
    for index in range(16):
        events.append(event("alloc", 0x7000_0000 + index * 4096, 4096))
        if index % 2:
            events.append(event("free_requested", 0x7000_0000 + index * 4096, 4096))
            events.append(event("free_completed", 0x7000_0000 + index * 4096, 4096))
    return snapshot_of(events)


class Reducer:
    """Pickles to a call of os.mkdir: a reader that executes it leaves a folder behind."""

    def __init__(self, path: Path) -> None:
        """Remember which folder the call would make."""
        self.path = path

    def __reduce__(self) -> tuple[Callable[..., None], tuple[str]]:
        """Say that unpickling means calling os.mkdir."""
        return os.mkdir, (str(self.path),)


def real_pickle() -> bytes:
    return lzma.decompress((TRACES / "gpt2_15b_N.pickle.xz").read_bytes())


def flip(data: bytes, position: int, bit: int = 3) -> bytes:
    return data[:position] + bytes([data[position] ^ (1 << bit)]) + data[position + 1 :]


BAD_TRACES: dict[str, Callable[[], bytes]] = {
    "empty file.pickle": lambda: b"",
    "text.pickle": lambda: b"The quick brown fox jumps over the lazy dog.\n" * 100,
    "zeros.pickle": lambda: bytes(4096),
    "picture.pickle": lambda: b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 16,
    "protocol only.pickle": lambda: b"\x80\x04.",
    "truncated.pickle": lambda: real_pickle()[: 1 << 20],
    "one byte short.pickle": lambda: pickle.dumps(small_snapshot())[:-1],
    "truncated.pickle.xz": lambda: (TRACES / "gpt2_15b_N.pickle.xz").read_bytes()[:100_000],
    "bit-flipped.pickle.xz": lambda: flip((TRACES / "gpt2_15b_N.pickle.xz").read_bytes(), 100_000),
    "bit-flipped opcode.pickle": lambda: flip(real_pickle(), 0),
    "empty.pickle.gz": lambda: b"\x1f\x8b",
    "empty.pickle.zst": lambda: b"\x28\xb5\x2f\xfd",
    "a number.pickle": lambda: pickle.dumps(42),
    "a list.pickle": lambda: pickle.dumps([small_snapshot()]),
    "no traces.pickle": lambda: pickle.dumps({"segments": []}),
    "no device.pickle": lambda: pickle.dumps(snapshot_of()),
    "empty traces.pickle": lambda: pickle.dumps(snapshot_of([])),
    "only empty traces.pickle": lambda: pickle.dumps(snapshot_of([], [], [])),
    "traces of text.pickle": lambda: pickle.dumps({"segments": [], "device_traces": ["alloc"]}),
    "size of text.pickle": lambda: pickle.dumps(snapshot_of([event("alloc", 4096, 1) | {"size": "big"}])),
    "negative size.pickle": lambda: pickle.dumps(snapshot_of([event("alloc", 4096, -1)])),
    "huge size.pickle": lambda: pickle.dumps(snapshot_of([event("alloc", 4096, 1 << 80)])),
    "string longer than the file.pickle": lambda: b"\x80\x04\x8d" + struct.pack("<Q", 1 << 60) + b"x",
    "memo of the future.pickle": lambda: b"\x80\x04j\xff\xff\xff\x7f.",
    "deep nesting.pickle": lambda: b"\x80\x04" + b"]" * 1_000_000 + b"a" * 999_999 + b".",
    "negative size.csv": lambda: b"id,lower,upper,size\n0,0,10,-4096\n",
    "negative time.csv": lambda: b"id,lower,upper,size\n0,-5,10,4096\n1,0,-10,4096\n",
    "huge size.csv": lambda: b"id,lower,upper,size\n0,0,10,99999999999999999999\n",
    "huge sum.csv": lambda: b"id,lower,upper,size\n"
    + b"".join(b"%d,0,10,%d\n" % (i, 1 << 62) for i in range(4)),
    "huge time.csv": lambda: b"id,lower,upper,size\n0,0,99999999999999999999,4096\n",
    "crossing.csv": lambda: b"id,lower,upper,size\n0,10,5,4096\n",
    "not a number.csv": lambda: b"id,lower,upper,size\n0,zero,5,4096\n",
    "fraction.csv": lambda: b"id,lower,upper,size\n0,0.5,5,4096\n",
    "missing column.csv": lambda: b"id,lower,upper\n0,0,5\n",
    "missing field.csv": lambda: b"id,lower,upper,size\n0,0,5\n",
    "empty file.csv": lambda: b"",
    "binary.csv": lambda: bytes(range(256)) * 4,
}


def assert_refused(run: Run, *arguments: str | Path) -> str:
    """Run the command and return its one line of complaint."""
    result = run(*arguments)
    assert (result.returncode, result.stdout) == (2, ""), result.stderr
    (line,) = result.stderr.splitlines()
    return line


@pytest.mark.parametrize("subcommand", ["inspect", "plan", "replay", "compare", "report"])
@pytest.mark.parametrize("name", BAD_TRACES)
def test_refuses_a_bad_trace(stweaver: Run, tmp_path: Path, name: str, subcommand: str) -> None:
    path = tmp_path / name
    path.write_bytes(BAD_TRACES[name]())
    assert name in assert_refused(stweaver, subcommand, path), "the line must name the file"
    assert_refused(stweaver, subcommand, path, "--json")


@pytest.mark.parametrize("subcommand", ["inspect", "plan", "replay", "compare", "report"])
def test_refuses_a_file_that_is_not_there(stweaver: Run, tmp_path: Path, subcommand: str) -> None:
    assert "missing.pickle" in assert_refused(stweaver, subcommand, tmp_path / "missing.pickle")
    assert_refused(stweaver, subcommand, tmp_path)


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_refuses_a_pickle_with_a_reducer_and_executes_nothing(
    stweaver: Run, tmp_path: Path, protocol: int
) -> None:
    trap = tmp_path / "executed"
    path = tmp_path / "reducer.pickle"
    path.write_bytes(pickle.dumps(small_snapshot() | {"extra": Reducer(trap)}, protocol))
    assert_refused(stweaver, "inspect", path)
    assert not trap.exists()


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_reads_the_same_snapshot_without_the_reducer(answer: Answer, tmp_path: Path, protocol: int) -> None:
    path = tmp_path / "good.pickle"
    path.write_bytes(pickle.dumps(small_snapshot(), protocol))
    assert answer("inspect", path)["requests"] == 16


@pytest.mark.slow
def test_refuses_or_reads_a_pickle_with_any_bit_flipped(stweaver: Run, tmp_path: Path) -> None:
    good = pickle.dumps(small_snapshot())
    path = tmp_path / "flipped.pickle"
    for position in range(0, len(good), max(1, len(good) // 100)):
        path.write_bytes(flip(good, position, position % 8))
        result = stweaver("inspect", path)
        assert result.returncode in {0, 2}, f"byte {position}: {result.stderr}"
        assert len(result.stderr.splitlines()) == (1 if result.returncode else 0)


@pytest.fixture
def plan(answer: Answer, tmp_path: Path) -> tuple[Path, Path]:
    """Plan a small job: the plan file and its trace."""
    trace, path = tmp_path / "small.pickle", tmp_path / "small.plan"
    trace.write_bytes(pickle.dumps(small_snapshot()))
    answer("plan", trace, "-o", path)
    return path, trace


def with_event_changed(index: int, **fields: int) -> dict[str, Any]:
    """Make the small snapshot with one event that is not as it was."""
    snapshot = small_snapshot()
    snapshot["device_traces"][0][index] |= fields
    return snapshot


def with_one_request_more() -> dict[str, Any]:
    """Make the small snapshot with an allocation at its end."""
    snapshot = small_snapshot()
    snapshot["device_traces"][0].append(event("alloc", 0x8000_0000, 4096))
    return snapshot


@pytest.mark.parametrize(
    "other",
    [with_one_request_more(), with_event_changed(0, size=8192), with_event_changed(0, stream=7)],
    ids=["one request more", "another size", "another stream"],
)
def test_refuses_a_plan_made_for_another_trace(
    stweaver: Run, plan: tuple[Path, Path], tmp_path: Path, other: dict[str, Any]
) -> None:
    trace = tmp_path / "other.pickle"
    trace.write_bytes(pickle.dumps(other))
    assert "small.plan" in assert_refused(stweaver, "check", plan[0], trace)


@pytest.mark.parametrize(
    "other",
    [
        SMALL_CSV + "3,10,12,4096\n",
        SMALL_CSV.replace("2,5,9,2048", "2,4,9,2048"),
        SMALL_CSV.replace("2048", "2049"),
    ],
    ids=["one buffer more", "another lifespan", "another size"],
)
def test_refuses_offsets_of_another_instance(
    stweaver: Run, answer: Answer, tmp_path: Path, other: str
) -> None:
    instance, placed, wrong = tmp_path / "small.csv", tmp_path / "placed.csv", tmp_path / "other.csv"
    instance.write_text(SMALL_CSV)
    wrong.write_text(other)
    answer("plan", instance, "-o", placed)
    assert_refused(stweaver, "check", placed, wrong)
    assert_refused(stweaver, "check", instance, instance)


@pytest.mark.slow
def test_refuses_a_plan_with_any_bit_flipped(stweaver: Run, plan: tuple[Path, Path]) -> None:
    path, trace = plan
    good = path.read_bytes()
    for position in range(0, len(good), max(1, len(good) // 100)):
        path.write_bytes(flip(good, position, position % 8))
        assert_refused(stweaver, "check", path, trace)
        assert_refused(stweaver, "replay", trace, "--plan", path)


def test_refuses_a_truncated_plan(stweaver: Run, plan: tuple[Path, Path]) -> None:
    path, trace = plan
    good = path.read_bytes()
    for length in [0, 1, 8, len(good) // 2, len(good) - 1]:
        path.write_bytes(good[:length])
        assert_refused(stweaver, "check", path, trace)
        assert "small.plan" in assert_refused(stweaver, "replay", trace, "--plan", path)


def test_refuses_a_trace_given_as_a_plan(stweaver: Run, plan: tuple[Path, Path]) -> None:
    assert_refused(stweaver, "check", plan[1], plan[1])
    assert_refused(stweaver, "replay", plan[1], "--plan", plan[1])
    assert "no.plan" in assert_refused(stweaver, "replay", plan[1], "--plan", "no.plan")


def test_refuses_to_write_a_plan_where_it_cannot(
    stweaver: Run, plan: tuple[Path, Path], tmp_path: Path
) -> None:
    assert_refused(stweaver, "plan", plan[1], "-o", tmp_path / "no such folder" / "small.plan")


TABLE = "gpu,gpus,layers,hidden,heads,seq,vocab,tp,pp,mbs,gbs,peak_allocated_bytes{}\n"
ROW = "A100,8,12,512,8,1024,50257,1,1,4,32,2536167424{}\n"


@pytest.mark.parametrize(
    ("columns", "cells", "said"),
    [
        (",experts", ",8", "the number of experts per token is 0"),
        (",experts,topk,moe_ffn", ",8,2,0", "the size of an expert is 0"),
        (",ffn", ",0", "the size of the MLP is 0"),
        (",tp", ",1", "two columns are called tp"),
    ],
)
def test_tables_with_sizes_of_nothing_are_refused(
    stweaver: Run, tmp_path: Path, columns: str, cells: str, said: str
) -> None:
    table = tmp_path / "table.csv"
    table.write_text(TABLE.format(columns) + ROW.format(cells))
    result = stweaver("advise", "--predict", table)
    assert (result.returncode, result.stdout) == (2, "")
    assert said in result.stderr


def test_rows_that_no_cluster_can_have_are_left_out(stweaver: Run, tmp_path: Path) -> None:
    header = "gpu,gpus,layers,hidden,heads,seq,tp,pp,mbs,gbs,iteration_ms,node_size,inter_node_Gbps\n"
    row = "A100,{},24,1024,16,1024,{},1,1,64,100,{},{}\n"
    table = tmp_path / "table.csv"
    for cells in ((8, 1, 0, 800), (8, 1, 8, -5), (8, 65536, 8, 800), (10**9, 1, 8, 800)):
        table.write_text(header + row.format(*cells))
        result = stweaver("advise", "--predict", table)
        assert (result.returncode, result.stdout) == (2, "")
        assert "no row can be predicted; line 2: " in result.stderr
    table.write_text("\ufeff" + header + row.format(8, 1, 8, 800), encoding="utf-8")
    assert stweaver("advise", "--predict", table).returncode == 0, "a spreadsheet's mark in front"


@pytest.mark.parametrize(
    "model",
    [{"intermediate_size": 0}, {"max_position_embeddings": 0}, {"kv_lora_rank": 512, "v_head_dim": 0}],
)
def test_models_with_sizes_of_nothing_are_refused(
    stweaver: Run, tmp_path: Path, model: dict[str, int]
) -> None:
    shape = {"num_hidden_layers": 32, "hidden_size": 4096, "num_attention_heads": 32, "vocab_size": 32000}
    path = tmp_path / "config.json"
    path.write_text(json.dumps(shape | model))
    result = stweaver("advise", path, "--gpus", "8", "--gpu", "h100")
    assert (result.returncode, result.stdout) == (2, "")
    assert " is 0" in result.stderr


def test_layers_of_no_known_kind_are_one_short_line(stweaver: Run, tmp_path: Path) -> None:
    shape = {"num_hidden_layers": 4, "hidden_size": 64, "num_attention_heads": 4, "vocab_size": 32000}
    path = tmp_path / "config.json"
    for kind in ('"linear"', "[" * 200_000 + "]" * 200_000, "7"):
        path.write_text(json.dumps({"model_type": "mistral", **shape})[:-1] + f', "layer_types": [{kind}]}}')
        result = stweaver("advise", path, "--gpus", "8", "--gpu", "h100")
        assert (result.returncode, result.stdout) == (2, "")
        assert len(result.stderr) < 500
        assert "in layer_types are not known" in result.stderr


@pytest.mark.parametrize("option", ["--max-memory", "--network", "--price"])
def test_what_is_no_number_is_no_number(stweaver: Run, option: str) -> None:
    result = stweaver("advise", "llama3_8b", "--gpus", "8", "--gpu", "h100", option, "nan")
    assert (result.returncode, result.stdout) == (2, "")
    assert "give a number" in result.stderr


def test_no_output_takes_the_place_of_an_input_or_of_another(stweaver: Run, tmp_path: Path) -> None:
    trace = tmp_path / "job.pickle"
    trace.write_bytes(pickle.dumps(small_snapshot(), protocol=2))
    other = tmp_path / "other.pickle"
    other.write_bytes(trace.read_bytes())
    link = tmp_path / "link.pickle"
    link.symlink_to(trace)
    page = tmp_path / "page.html"
    to_page = tmp_path / "link.html"  # which is not there yet
    to_page.symlink_to("page.html")
    for command in (
        ("report", trace, "-o", page, "--perfetto", to_page),
        ("report", trace, "-o", to_page, "--perfetto", page),
        ("plan", trace, "-o", trace),
        ("plan", link, "-o", trace),
        ("report", trace, "-o", trace),
        ("report", trace, "-o", page, "--perfetto", page),
        ("diff", trace, other, "-o", other),
        ("plan", trace, "-o", tmp_path / "no folder" / "plan"),
    ):
        result = stweaver(*command)
        assert (result.returncode, result.stdout) == (2, ""), command
        assert "give it another name" in result.stderr or "make it first" in result.stderr
    assert trace.read_bytes() == other.read_bytes()
    assert not page.exists()
    nothing = stweaver("report", tmp_path / "nothing", "-o", page, "--memory-viz", tmp_path / "folder")
    assert nothing.returncode == 2
    assert not (tmp_path / "folder").exists()


@pytest.mark.parametrize("option", [["--device", "7"], ["--step-only"]])
def test_a_planning_instance_has_no_steps_and_no_device(
    stweaver: Run, tmp_path: Path, option: list[str]
) -> None:
    instance = tmp_path / "small.csv"
    instance.write_text(SMALL_CSV)
    result = stweaver("plan", instance, *option)
    assert (result.returncode, result.stdout) == (2, "")
    assert "leave out --device and --step-only" in result.stderr


def test_drafts_of_others_are_left_alone(stweaver: Run, tmp_path: Path) -> None:
    trace = tmp_path / "job.pickle"
    trace.write_bytes(pickle.dumps(small_snapshot(), protocol=2))
    precious = tmp_path / "job.plan.part"
    precious.write_text("precious")
    plan = tmp_path / "job.plan"
    plan.write_text("older")
    plan.chmod(0o600)
    assert stweaver("plan", trace, "-o", plan).returncode == 0
    assert precious.read_text() == "precious"
    assert plan.stat().st_mode & 0o777 == 0o600
    assert {path.name for path in tmp_path.iterdir()} == {"job.pickle", "job.plan", "job.plan.part"}
