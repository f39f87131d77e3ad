"""Which of the adapters that came with the package is chosen, and why none is."""

import dataclasses
import sys
from pathlib import Path

import pytest
from stweaver import adapter, doctor, layout, prebuilt, pytorch
from stweaver.error import Error


@pytest.fixture
def package(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Bring adapters for 2.8 and 2.10."""
    for release in ("2.8", "2.10"):
        folder = tmp_path / "adapters" / release
        folder.mkdir(parents=True)
        for name in ("cuda_wrapper.so", "cpu_adapter.so"):
            (folder / name).touch()
    found = dataclasses.replace(layout.find(), prebuilt=tmp_path / "adapters")
    monkeypatch.setattr(layout, "find", lambda: found)
    return tmp_path / "adapters"


def torch(
    folder: Path, version: str, cuda: str | None = "12.8", symbol: str = "NSt7__cxx11"
) -> pytorch.Build:
    (folder / "lib").mkdir(exist_ok=True)
    (folder / "lib" / "libc10.so").write_text(symbol)
    return pytorch.Build(folder, version, "", cuda)


@pytest.mark.parametrize(
    ("version", "cuda", "release"),
    [
        ("2.8.0", "12.8", "2.8"),
        ("2.8.1+cu126", "12.6", "2.8"),
        ("2.10.0+cu130", "13.0", "2.10"),
        ("2.10.3+cpu", None, "2.10"),
    ],
)
def test_a_known_release_has_its_adapter(
    package: Path, tmp_path: Path, version: str, cuda: str | None, release: str
) -> None:
    choice = prebuilt.choose("cpu_adapter.cc", torch(tmp_path, version, cuda))
    assert choice == prebuilt.Choice(package / release / "cpu_adapter.so", choice.why)
    assert choice.why == f"came with the package, for PyTorch {release}"


@pytest.mark.parametrize(
    ("version", "cuda", "symbol", "why"),
    [
        ("2.9.0", "12.8", "NSt7__cxx11", "those of the package are for PyTorch 2.8, 2.10"),
        ("2.16.0", "13.2", "NSt7__cxx11", "those of the package are for PyTorch 2.8, 2.10"),
        ("2.8.0a0+gitabcdef", "12.8", "NSt7__cxx11", "2.8.0a0+gitabcdef is no release"),
        ("2.10.0.dev20260101+cu130", "13.0", "NSt7__cxx11", "is no release"),
        ("2.8.0+rocm6.4", None, "NSt7__cxx11", "is no release"),
        ("2.8.0", "14.0", "NSt7__cxx11", "are for CUDA 12 and 13"),
        ("2.8.0", "12.8", "Ss", "C++ ABI"),
    ],
)
@pytest.mark.usefixtures("package")
def test_any_other_build_of_torch_has_none_and_is_told_why(
    tmp_path: Path, version: str, cuda: str | None, symbol: str, why: str
) -> None:
    choice = prebuilt.choose("cuda_wrapper.cc", torch(tmp_path, version, cuda, symbol))
    assert choice.path is None
    assert why in choice.why


def test_a_checkout_brings_none() -> None:
    choice = adapter.choose("cpu")
    assert choice == prebuilt.Choice(None, "this installation brings no adapters")


def details() -> dict[str, tuple[bool, str]]:
    return {part["part"]: (part["works"], part["detail"]) for part in doctor.find()["findings"]}


def test_doctor_says_which_adapter_and_why(
    package: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(pytorch, "find", lambda: torch(tmp_path, "2.10.0"))
    monkeypatch.setenv("CXX", "no-such-compiler")
    found = details()
    assert found["adapter"][0]
    assert found["adapter"][1].startswith("for cuda devices: came with the package, for PyTorch 2.10")
    assert found["compiler"] == (True, "none, and none is needed: the adapter came with the package")
    (package / "2.10" / "cuda_wrapper.so").unlink()
    assert details()["compiler"][0] is False


@pytest.mark.usefixtures("package")
def test_doctor_says_why_an_adapter_is_built(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pytorch, "find", lambda: pytorch.Build(Path(sys.prefix), "2.99.0", "", None))
    works, detail = details()["adapter"]
    assert works
    assert detail.startswith("for cpu devices: will be built when first used, because those of the package")


@pytest.mark.usefixtures("package")
def test_doctor_says_that_an_adapter_cannot_be_built(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(pytorch, "find", lambda: torch(tmp_path, "2.99.0", "99.0"))
    works, detail = details()["adapter"]
    assert not works
    assert detail == "no headers of the CUDA 99.0 run time here"


@pytest.mark.usefixtures("package")
def test_a_build_without_cuda_has_no_adapter_for_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(pytorch, "find", lambda: torch(tmp_path, "2.8.0", None))
    with pytest.raises(Error, match="is not built for CUDA"):
        adapter.choose("cuda")


def test_where_nobody_has_a_home_the_folder_of_adapters_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    def nobody() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("STWEAVER_CACHE", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(Path, "home", nobody)
    with pytest.raises(Error, match="set STWEAVER_CACHE"):
        adapter.cache_folder()
