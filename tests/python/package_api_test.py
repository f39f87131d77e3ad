"""The package without what it needs: it is imported all the same, and says what is missing when asked."""

import bz2
import gzip
import json
import lzma
import os
import re
import sys
from pathlib import Path

import pytest
import stweaver
from conftest import ROOT, Answer, Run
from stweaver import adapter, pytorch, session, statistics, variables, version
from stweaver.library import Library

SNAPSHOT = ROOT / "examples" / "snapshots" / "steps.pickle.xz"
NO_SITE = "-S"  # leaves out the folder that torch is installed in


def last_line(text: str) -> str:
    return text.strip().splitlines()[-1]


def test_importing_it_imports_no_torch(python: Run) -> None:
    result = python("-c", "import stweaver, sys; print('torch' in sys.modules)")
    assert (result.stdout, result.stderr) == ("False\n", "")


def test_without_torch_everything_that_needs_none_works(python: Run) -> None:
    program = (
        "import stweaver\n"
        "stweaver.mark_step(); stweaver.disable()\n"
        "print(stweaver.is_enabled(), stweaver.__version__)"
    )
    result = python(NO_SITE, "-c", program)
    assert (result.stdout, result.stderr) == (f"False {stweaver.__version__}\n", "")


@pytest.mark.parametrize(
    "call", ["enable()", "enable(device='cpu')", "record('x.trace')", "install('pyproject.toml')"]
)
def test_without_torch_an_error_says_so(python: Run, call: str) -> None:
    result = python(NO_SITE, "-c", f"import stweaver; stweaver.{call}")
    assert result.returncode == 1
    assert last_line(result.stderr).startswith("stweaver.error.Error: ")
    assert "PyTorch" in last_line(result.stderr)
    assert "pip install torch" in last_line(result.stderr)


def test_without_a_gpu_an_error_says_so(python: Run) -> None:
    result = python("-c", "import stweaver; stweaver.enable(device='cuda')", CUDA_VISIBLE_DEVICES="")
    assert result.returncode == 1
    assert re.search(r"Error: PyTorch \S+ sees no CUDA GPU; .*device='cpu'", last_line(result.stderr))


def test_without_a_compiler_an_error_says_so(python: Run, tmp_path: Path) -> None:
    enable = "import stweaver; stweaver.enable(device='cpu')"
    foreign = tmp_path / "foreign"
    foreign.write_bytes(b"a program of another machine")
    foreign.chmod(0o755)
    for name, path in (
        ("no-such-compiler", None),
        ("g++ '", None),
        (str(foreign), None),
        (None, str(tmp_path)),
    ):
        variables = {"PATH": path or os.environ["PATH"], "CXX": name}
        result = python("-c", enable, STWEAVER_CACHE=tmp_path, **variables)
        assert result.returncode == 1
        assert "install g++" in last_line(result.stderr)


def test_a_compiler_that_fails_leaves_a_log(python: Run, tmp_path: Path) -> None:
    compiler = tmp_path / "c++"
    compiler.write_text("#!/bin/sh\n[ $1 = --version ] && exit\necho error: too tired >&2\nexit 1\n")
    compiler.chmod(0o755)
    result = python(
        "-c", "import stweaver; stweaver.enable(device='cpu')", STWEAVER_CACHE=tmp_path, CXX=str(compiler)
    )
    (log,) = tmp_path.glob("*.log")
    assert "error: too tired" in log.read_text()
    assert "too tired" in last_line(result.stderr)
    assert str(log) in last_line(result.stderr)
    assert not list(tmp_path.glob("*.so"))


def compiler_that(folder: Path, does: str) -> Path:
    """Write one that knows its version, and does that when it is to compile."""
    compiler = folder / "compiler"
    compiler.write_text(f"#!/bin/sh\n[ $1 = --version ] && exit\n{does}\n")
    compiler.chmod(0o755)
    return compiler


def test_an_adapter_of_another_compiler_serves_where_this_one_fails(python: Run, tmp_path: Path) -> None:
    enable = "import stweaver; stweaver.enable(device='cpu'); print('enabled')"
    compiler = compiler_that(tmp_path, "echo error: no license >&2; exit 1")
    for _ in range(2):  # the first may be the one that builds it for all tests
        assert python("-c", enable).stdout == "enabled\n"
    assert python("-c", enable, CXX=str(compiler)).stdout == "enabled\n"


def test_what_is_not_a_whole_adapter_is_built_again(python: Run, adapter_cache: Path, tmp_path: Path) -> None:
    enable = "import stweaver; stweaver.enable(device='cpu'); print('enabled')"
    lazy = compiler_that(tmp_path, "exit 0")
    assert "it made no library" in last_line(
        python("-c", enable, STWEAVER_CACHE=tmp_path, CXX=str(lazy)).stderr
    )
    python("-c", enable)
    whole = max(adapter_cache.glob("cpu_adapter-*.so"), key=lambda path: path.stat().st_size)
    for size in (0, 10, 100, whole.stat().st_size - 1):
        part = tmp_path / whole.name
        part.write_bytes(whole.read_bytes()[:size])
        failing = compiler_that(tmp_path, "echo error: no room >&2; exit 1")
        told = python("-c", enable, STWEAVER_CACHE=tmp_path, CXX=str(failing)).stderr
        assert "no room" in last_line(told), "it is not loaded, but built again"


@pytest.mark.parametrize(
    ("release", "named", "settings"),
    [
        ("2.12.1+cu130", "", ""),
        ("2.13.0", "", "oldest_first:True"),
        ("3.0", "expandable_segments:True", "expandable_segments:True,oldest_first:True"),
    ],
)
def test_settings_tell_later_releases(
    monkeypatch: pytest.MonkeyPatch, release: str, named: str, settings: str
) -> None:
    monkeypatch.setattr(pytorch, "find", lambda: pytorch.Build(Path(), release, "", None))
    monkeypatch.setenv("PYTORCH_CUDA_ALLOC_CONF", named)
    monkeypatch.delenv("PYTORCH_ALLOC_CONF", raising=False)
    assert pytorch.allocator_settings() == settings


def test_without_the_library_an_error_says_so(python: Run) -> None:
    result = python("-c", "import stweaver; stweaver.plan('x.trace')", STWEAVER_LIBRARY="/nowhere/lib.so")
    assert last_line(result.stderr) == (
        "stweaver.error.Error: no such file: /nowhere/lib.so; correct STWEAVER_LIBRARY"
    )


def test_a_folder_that_cannot_hold_adapters_is_an_error(python: Run, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    result = python(
        "-c", "import stweaver; stweaver.enable(device='cpu')", STWEAVER_CACHE=tmp_path / "file" / "cache"
    )
    assert "let STWEAVER_CACHE name another folder" in last_line(result.stderr)


def test_statistics_before_anything_is_enabled_are_an_error() -> None:
    with pytest.raises(stweaver.Error, match=r"call stweaver\.enable"):
        stweaver.stats()


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ({"device": "tpu"}, "must be 'cuda', 'cpu' or None"),
        ({"device": "cpu", "way": "magic"}, "must be one of wrapper, pluggable"),
        ({"device": "cpu", "way": "pluggable"}, "is for device='cuda'"),
        ({"device": "cpu", "plan": "/nowhere/job.plan"}, "no such plan: /nowhere/job.plan"),
        ({"device": "cpu", "trace": "/nowhere/job.trace"}, "no such folder: /nowhere"),
        ({"device": "cpu", "save": "/nowhere/job.plan"}, "no such folder: /nowhere"),
    ],
)
def test_arguments_that_make_no_sense_are_errors(arguments: dict[str, str], complaint: str) -> None:
    with pytest.raises(stweaver.Error, match=re.escape(complaint)):
        stweaver.enable(**arguments)  # type: ignore[arg-type]
    assert not stweaver.is_enabled()


def test_the_version_is_that_of_the_build(stweaver: Run) -> None:
    assert stweaver("--version").stdout == f"{version.__version__}\n"
    assert session.open_library().version == version.__version__


def test_the_changelog_begins_with_the_version() -> None:
    found = re.search(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert found is not None
    assert found[1] == version.__version__


def test_every_variable_of_the_table_is_documented_and_no_other() -> None:
    page = (ROOT / "docs" / "python.md").read_text()
    rows = set(re.findall(r"^\| `(STWEAVER_[A-Z]+)`", page, re.MULTILINE))
    assert rows == {variable.full_name for variable in variables.ALL}


@pytest.mark.parametrize(
    ("path", "written"), [("job.trace", "job-device{device}.trace"), ("{device}.trace",) * 2]
)
def test_each_of_several_devices_has_a_file_of_its_own(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, path: str, written: str
) -> None:
    monkeypatch.setattr(pytorch, "device_count", lambda _: 2)
    assert session._to_write(tmp_path / path, "cuda") == str(tmp_path / written)
    monkeypatch.setattr(pytorch, "device_count", lambda _: 1)
    assert session._to_write(tmp_path / path, "cuda") == str(tmp_path / path)


def test_the_headers_must_be_of_the_cuda_that_torch_was_built_for(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    torch = pytorch.Build(tmp_path / "site-packages" / "torch", "9.0.0+cu990", "", "99.0")
    toolkit, wheel = tmp_path / "cuda-12.8", tmp_path / "site-packages" / "nvidia" / "cu99"
    for folder, number in ((toolkit, 12080), (wheel, 99000)):
        (folder / "include").mkdir(parents=True)
        (folder / "include" / "cuda_runtime_api.h").write_text(f"#define CUDART_VERSION  {number}\n")
    monkeypatch.setenv("CUDA_HOME", str(toolkit))
    assert adapter.find_cuda_headers(torch) == wheel / "include"
    (wheel / "include" / "cuda_runtime_api.h").unlink()
    with pytest.raises(stweaver.Error, match=r"pip install nvidia-cuda-runtime\)"):
        adapter.find_cuda_headers(torch)


# ---- planning offline ----


@pytest.mark.parametrize(
    ("suffix", "pack"),
    [("", bytes), (".xz", lzma.compress), (".gz", gzip.compress), (".bz2", bz2.compress)],
)
def test_a_snapshot_is_planned_packed_or_not(
    answer: Answer, tmp_path: Path, suffix: str, pack: type[bytes]
) -> None:
    trace = tmp_path / f"job.pickle{suffix}"
    trace.write_bytes(pack(lzma.decompress(SNAPSHOT.read_bytes())))
    plan = stweaver.plan(trace)
    assert plan == tmp_path / "job.plan"
    assert answer("check", plan, SNAPSHOT)["ok"]


def test_a_plan_goes_where_it_is_told(tmp_path: Path) -> None:
    assert stweaver.plan(SNAPSHOT, tmp_path / "here") == tmp_path / "here"
    assert (tmp_path / "here").stat().st_size > 0
    (tmp_path / "link").symlink_to("there")
    (tmp_path / "there").touch()
    stweaver.plan(SNAPSHOT, tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "there").stat().st_size > 0


@pytest.mark.parametrize("suffix", ["", ".xz"])
def test_a_plan_replaces_no_recording_and_nothing_that_is_no_file(tmp_path: Path, suffix: str) -> None:
    trace = tmp_path / f"job.pickle{suffix}"
    content = SNAPSHOT.read_bytes() if suffix else lzma.decompress(SNAPSHOT.read_bytes())
    trace.write_bytes(content)
    with pytest.raises(stweaver.Error, match="is the recording itself"):
        stweaver.plan(trace, trace)
    assert trace.read_bytes() == content
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(stweaver.Error, match="it is no plain file"):
        stweaver.plan(trace, tmp_path / "pipe")
    assert (tmp_path / "pipe").is_fifo()


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (None, "cannot read {}"),
        (b"\x28\xb5\x2f\xfd....", "unzstd {}"),
        (b"\xfd7zXZ\0....", "cannot unpack {}"),
        (b"\x1f\x8b....", "cannot unpack {}"),
        (gzip.compress(bytes(1 << 20))[:20] + b"\xff" * 60, "cannot unpack {}"),
        (bz2.compress(bytes(80 << 20)), "{}: unpacks to more than 1000 times its size"),
        (b"nothing of the kind", "{}"),
    ],
    # Made of the content, names would hold the time of its compression.
    ids=["missing", "zstd", "xz", "gzip", "damaged gzip", "bzip2 of zeros", "no trace"],
)
def test_a_trace_that_is_none_is_an_error_that_names_it(
    tmp_path: Path, content: bytes | None, complaint: str
) -> None:
    trace = tmp_path / "job.trace"
    if content is not None:
        trace.write_bytes(content)
    with pytest.raises(stweaver.Error, match=re.escape(complaint.format(trace))) as caught:
        stweaver.plan(trace)
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "job.plan").exists()


# ---- the library and the adapters ----


def test_an_adapter_is_built_only_from_the_headers_of_the_library(monkeypatch: pytest.MonkeyPatch) -> None:
    library = session.open_library()
    assert {"base/base.h", "device/model.h", "session/session.h"} <= library.headers.keys()
    adapter.check_headers(library)
    stale = library.headers | {"device/model.h": "0" * 64}
    monkeypatch.setattr(Library, "headers", property(lambda _: stale))
    complaint = f"{library.path} was not built from .*device/model.h as it is now; build it again"
    with pytest.raises(stweaver.Error, match=complaint):
        stweaver.enable(device="cpu")
    assert not stweaver.is_enabled()


# ---- the numbers ----


def served(hits: int, misses: int) -> dict[str, object]:
    return {"planned": hits, "reused": 0, "hits": hits, "misses": misses, "missed": {"no_plan": misses}}


def peaks(requested: int, reserved: int) -> dict[str, int]:
    return {"requested": requested, "reserved": reserved, "fallback_reserved": 0}


def device(number: int, follows: int) -> dict[str, object]:
    step = {"served": served(2, 0), "peaks": peaks(60, 75), "driver_calls": 3, "nanoseconds": 40}
    counts = "requested reserved arena fallback_reserved planned reused unplanned fallback blocks steps "
    counts += "plans waits reclaims ooms idle waiting refusals nanoseconds"
    return {
        "device": number,
        "stage": "following",
        "why_no_plan": "",
        "follows_plan": follows,
        "served": served(3, 1),
        "peaks": peaks(80, 100),
        "step": step,
        "last_step": step,
        "mapping": {"maps": 5, "unmaps": 1, "idle_waits": 1, "nanoseconds": 70},
        "unheard_of": 1,
        **dict.fromkeys(counts.split(), 7),
    }


def test_statistics_are_summed_over_devices() -> None:
    stats = statistics.parse({"devices": [device(0, 1), device(1, 0)], "log": ["a line"]})
    assert (stats.hits, stats.misses, stats.reserved) == (6, 2, 14)
    assert (stats.peak_requested, stats.peak_reserved, stats.efficiency) == (160, 200, 0.8)
    assert stats.saved == 25, "of device 0; device 1 follows no plan"
    assert stats.devices[0].last_step.peaks.efficiency == 0.8
    assert stats.log == ("a line",)
    assert str(stats).splitlines()[0].startswith("device 0: 0.00 GiB requested")


def test_a_report_tells_where_memory_in_use_comes_from() -> None:
    sizes = {"planned": 4, "reused": 3, "unplanned": 2, "fallback": 1}
    one = device(0, 1) | {name: size << 30 for name, size in sizes.items()}
    stats = statistics.parse({"devices": [one]})
    assert stats.devices[0].unplanned == 2 << 30
    assert str(stats).splitlines()[2].split(": ")[1] == (
        "4.00 GiB planned, 3.00 GiB reused, 2.00 GiB unplanned, 1.00 GiB from PyTorch's own allocator"
    )


def test_nothing_allocated_is_nothing_wasted() -> None:
    stats = statistics.parse({})
    assert (stats.hits, stats.reserved, stats.efficiency, stats.saved) == (0, 0, 1.0, 0)
    assert str(stats) == "nothing has been allocated yet"


# ---- doctor ----


def test_doctor_of_the_command_shows_what_the_package_knows(
    stweaver: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STWEAVER_PYTHON", sys.executable)
    monkeypatch.setenv("PYTHONPATH", str(ROOT / "python"))
    monkeypatch.setenv("STWEAVER_DEVISE", "cuda")
    document = json.loads(stweaver("doctor", "--json").stdout)
    findings = {finding["part"]: finding for finding in document["findings"]}
    assert findings["torch"]["works"]
    assert findings["python package"]["works"]
    assert findings["compiler"]["works"]
    names = {variable["name"]: variable["value"] for variable in document["variables"]}
    assert names["STWEAVER_PYTHON"] == sys.executable
    assert document["unknown_variables"] == [
        name for name in sorted(os.environ) if name in {"STWEAVER_DEVISE", "STWEAVER_COMMAND"}
    ]
    assert "STWEAVER_DEVISE has no meaning" in stweaver("doctor").stdout


def test_doctor_names_a_package_of_another_version(
    stweaver: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    python = tmp_path / "python"
    python.write_text("""#!/bin/sh\necho '{"findings": [{"what": "gpu"}]}'\n""")
    python.chmod(0o755)
    monkeypatch.setenv("STWEAVER_PYTHON", str(python))
    result = stweaver("doctor")
    assert result.returncode == 2
    assert result.stderr.startswith("stweaver: the Python package stweaver is of another version")


def test_doctor_without_the_package_says_how_to_get_it(
    stweaver: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    nothing = tmp_path / "python3"
    nothing.write_text("#!/bin/sh\nexit 1\n")
    nothing.chmod(0o755)
    monkeypatch.setenv("STWEAVER_PYTHON", str(nothing))
    result = stweaver("doctor")
    assert result.returncode == 0
    assert re.search(r"^python package: pip install", result.stdout, re.MULTILINE)
    assert "STWEAVER_RUN" not in result.stdout
