"""What an adapter answers, from libraries that are none."""

from pathlib import Path
from types import SimpleNamespace

import pytest
from stweaver import library
from stweaver.error import Error


def open_adapter(monkeypatch: pytest.MonkeyPatch, session: int | None, complaint: bytes | None) -> int:
    fake = SimpleNamespace(
        stweaver_adapter_install=lambda: complaint,
        stweaver_adapter_remove=lambda: None,
        stweaver_adapter_session=lambda: session,
    )
    monkeypatch.setattr(library, "_open", lambda _: fake)
    core = library.Library.__new__(library.Library)
    return library.Adapter(Path("adapter.so"), core).session


def test_an_adapter_behind_another_allocator_is_an_error_that_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with pytest.raises(Error, match="cannot stand before"):
        open_adapter(monkeypatch, None, b"cannot stand before the CUDA allocator")
    with pytest.raises(Error, match=r"adapter\.so has no session"):
        open_adapter(monkeypatch, None, None)
    assert open_adapter(monkeypatch, 7, None) == 7
