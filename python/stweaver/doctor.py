"""What this Python has: the part of `stweaver doctor` that only Python can find out."""

import os
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from stweaver import adapter, layout, prebuilt, pytorch, session, variables
from stweaver.error import Error
from stweaver.version import __version__


@dataclass(frozen=True)
class Finding:
    """One part, whether it works, and how to mend it if not."""

    part: str
    works: bool
    detail: str
    remedy: str


def find() -> dict[str, Any]:
    """Everything, ready for JSON: `findings` and `variables`."""
    parts: dict[str, Callable[[], str]] = {
        "python package": _package,
        "core library": _library,
        "torch": _torch,
        "compiler": _compiler,
        "adapter": _adapter,
        "cache": _cache,
    }
    return {
        "findings": [asdict(_finding(part, look)) for part, look in parts.items()],
        "variables": [
            {"name": variable.full_name, "value": variable.value, "meaning": variable.meaning}
            for variable in variables.ALL
        ],
        "unknown_variables": variables.unknown(),
    }


def text() -> str:
    """Write the same for people."""
    facts = find()
    lines = [
        f"{finding['part']:<16}{'works' if finding['works'] else 'missing':<9}{finding['detail']}"
        for finding in facts["findings"]
    ]
    lines += [
        "",
        *(f"{name['name']:<19}{name['value'] or '-':<9}{name['meaning']}" for name in facts["variables"]),
    ]
    lines += [f"{name} has no meaning: is it misspelt?" for name in facts["unknown_variables"]]
    remedies = [
        f"{finding['part']}: {finding['remedy']}" for finding in facts["findings"] if not finding["works"]
    ]
    return "\n".join([*lines, *(["", *remedies] if remedies else [])])


def _finding(part: str, look: Callable[[], str]) -> Finding:
    """Ask for one part. An Error's text is "what; remedy"."""
    try:
        return Finding(part, works=True, detail=look(), remedy="")
    except Error as error:
        detail, _, remedy = str(error).partition("; ")
        return Finding(part, works=False, detail=detail, remedy=remedy)


def _package() -> str:
    return f"stweaver {__version__} of {sys.executable}"


def _library() -> str:
    return str(session.open_library().path)


def _torch() -> str:
    torch = pytorch.find()
    return f"PyTorch {torch.version}, {f'CUDA {torch.cuda}' if torch.cuda else 'no CUDA'}"


def _compiler() -> str:
    try:
        return adapter.find_compiler().version
    except Error:
        if _prebuilt().path is None and not adapter.is_built(_kind()):
            raise
        how = "was built before" if _prebuilt().path is None else "came with the package"
        return f"none, and none is needed: the adapter {how}"


def _adapter() -> str:
    choice = _prebuilt()
    if choice.path is not None:
        state = choice.why
    else:
        is_built = adapter.is_built(_kind())
        if not is_built:
            adapter.check_parts(_kind())
        state = f"{'built here' if is_built else 'will be built when first used'}, because {choice.why}"
    pluggable = "; pluggable as well" if layout.find().pluggable.is_file() else ""
    return f"for {_kind()} devices: {state}{pluggable}"


def _kind() -> str:
    return "cuda" if pytorch.find().cuda else "cpu"


def _prebuilt() -> prebuilt.Choice:
    return adapter.choose(_kind())


def _cache() -> str:
    folder = adapter.cache_folder()
    existing = next(parent for parent in [folder, *folder.parents] if os.access(parent, os.F_OK))
    if not os.access(existing, os.W_OK | os.X_OK):
        raise Error(f"cannot write to {folder}; let {variables.CACHE.full_name} name another folder")
    return str(folder)
