"""Functions for everything that CUDA's headers declare and nobody wrote by hand.

GCC lists what the headers declare (-aux-info: one line for each function). Each becomes a C function that
counts its call, sets what its arguments point to, and says that all went well: numbers and structures become
zero, handles of what is created a handle of its own. Whatever points to the device is left alone. Those that
allocate, copy or fill memory say that they are not supported: a program would go on with wrong bytes.
"""

import re
import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from nullcuda.error import Error

HEADERS = (
    "cuda.h",
    "cuda_runtime_api.h",
    "cublas_v2.h",
    "cublasLt.h",
    "cudnn.h",
    "cufft.h",
    "cufftXt.h",
    "cufile.h",
    "cupti.h",
    "curand.h",
    "cusolverDn.h",
    "cusolverSp.h",
    "cusparse.h",
    "cusparseLt.h",
    "nccl.h",
    "nvrtc.h",
)
# Headers that stand in for others, of which nothing is needed to declare functions: of the compiler's, and,
# where C is compiled, of C++'s.
STAND_INS = {
    "both/nv/target": "".join(f"#define {name}(...)\n" for name in ("NV_IF_TARGET", "NV_IF_ELSE_TARGET")),
    "c/cstddef": "#include <stddef.h>\n",
    "c/cstdint": "#include <stdint.h>\n#include <stdbool.h>\n",
}
OURS = re.compile(
    r"(_*cu[A-Z]|_*cuda[A-Z]|cublas|cudnn|cufft|cuFile|cupti|curand|cusolver|cusparse|p?nccl|nvrtc)"
)
CREATES = re.compile(r"Create|Init|Open|Alloc|Begin|Load|Register|Instantiate|Clone|Add|Subscribe|Split")
# These take arrays of the caller's, without const, where others take what they fill in.
READS_ARRAYS = re.compile(r"cufft\w*MakePlan|cufft\w*Plan")

# Memory is not touched here; what variables of kernels hold is no matter, for kernels do not run.
REFUSED = re.compile(r"cu(da)?(?=[A-Z])\w*(Memcpy|Memset|Malloc|MemAlloc|MemPool)(?!\w*ToSymbol)")


class Function(NamedTuple):
    """A declaration: C types as GCC spells them."""

    name: str
    result: str
    parameters: tuple[str, ...]


def stand_ins(folder: Path) -> tuple[Path, Path]:
    """Write the headers that stand in for others; return their folders, for C++ and C and for C alone."""
    for name, text in STAND_INS.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder / "both", folder / "c"


def compile_command(include: Sequence[Path]) -> list[str]:
    """Return how C is compiled against the headers."""
    return ["gcc", "-std=gnu17", "-w", *[f"-I{folder}" for folder in include]]


def declared(include: Sequence[Path], work: Path) -> tuple[list[str], dict[str, Function]]:
    """Return the headers that could be read and the functions that they declare."""
    headers, functions = [], {}
    for header in HEADERS:
        source, listing = work / "declared.c", work / "declared.txt"
        source.write_text(f"#include <{header}>\n")
        command = [*compile_command(include), "-fsyntax-only", "-aux-info", str(listing), str(source)]
        if subprocess.run(command, capture_output=True, check=False).returncode != 0:
            continue  # this CUDA has no such library; what torch needs of it gets an untyped function
        headers.append(header)
        for line in listing.read_text().splitlines():
            if (function := parse(line)) is not None and OURS.match(function.name):
                functions[function.name] = function
    if "cuda.h" not in headers or "cuda_runtime_api.h" not in headers:
        raise Error("cuda.h or cuda_runtime_api.h cannot be compiled; is this a C compiler for Linux?")
    return headers, functions


def parse(line: str) -> Function | None:
    """Read `/* file:line:NC */ extern RESULT NAME (PARAMETERS);`."""
    match = re.match(r"/\*.*?\*/ extern (.*?)(\w+) \((.*)\);", line)
    if match is None or "..." in match[3]:
        return None
    parameters = split(match[3])
    nothing = parameters in {("void",), ("/* ??? */",)}
    return Function(match[2], match[1].strip(), () if nothing else parameters)


def split(parameters: str) -> tuple[str, ...]:
    """Split at the commas that are in no parentheses."""
    parts, depth, begin = [], 0, 0
    for place, letter in enumerate(parameters):
        depth += (letter == "(") - (letter == ")")
        if letter == "," and depth == 0:
            parts.append(parameters[begin:place].strip())
            begin = place + 1
    return (*parts, parameters[begin:].strip())


def pointee(parameter: str) -> str:
    """Return the type that a parameter lets the function fill in; "" where there is none."""
    if not parameter.endswith("*") or "(" in parameter:
        return ""
    target = parameter[:-1].strip()
    is_const = target.endswith("const") or (target.startswith("const ") and "*" not in target)
    return "" if is_const or target in {"void", "char", "FILE"} else target


def incomplete(types: Iterable[str], include: Sequence[Path], headers: Sequence[str], work: Path) -> set[str]:
    """Return the types whose size the headers do not tell."""
    names = sorted(types)
    source = work / "sizes.c"
    head = [f"#include <{header}>" for header in headers]
    lines = [f"char size_{number}[sizeof(__typeof__({name}))];" for number, name in enumerate(names)]
    source.write_text("\n".join([*head, *lines]) + "\n")
    done = subprocess.run(
        [*compile_command(include), "-fsyntax-only", "-fmax-errors=0", str(source)],
        capture_output=True,
        text=True,
        check=False,
    )
    wrong = {int(number) for number in re.findall(rf"{source.name}:(\d+):\d+: error", done.stderr)}
    return {name for place, name in enumerate(names, len(head) + 1) if place in wrong}


def body(function: Function, number: int, unknown: set[str]) -> str:
    """Write one function."""
    parameters = ", ".join(f"__typeof__({kind}) a{place}" for place, kind in enumerate(function.parameters))
    fills = []
    if not READS_ARRAYS.match(function.name):
        for place, kind in enumerate(function.parameters):
            target = pointee(kind)
            if target and target not in unknown:
                creates = int(CREATES.search(function.name) is not None)
                fills.append(
                    f" nullcuda_fill(a{place}, sizeof *a{place}, {creates} && IS_HANDLE(*a{place}));"
                )
    if REFUSED.match(function.name):
        answer = f" return nullcuda_refuse({int(function.name.startswith('cuda'))});"
    elif function.result == "void":
        answer = ""
    elif "char" in function.result and "*" in function.result:
        answer = ' return (void*)"null CUDA";'
    else:
        answer = f" return (__typeof__({function.result})){{0}};"
    head = f"EXPORT __typeof__({function.result}) {function.name}({parameters or 'void'})"
    return f"{head} {{ nullcuda_count({number});{''.join(fills)}{answer} }}"


def write(source: Path, include: Sequence[Path], needed: set[str], by_hand: set[str]) -> list[str]:
    """Write the C source of all functions that are declared or `needed`, and not written `by_hand`.

    Return the names that no header declares: of these only the name is known.
    """
    work = source.parent
    headers, functions = declared(include, work)
    typed = [function for name, function in sorted(functions.items()) if name not in by_hand]
    targets = {target for function in typed for kind in function.parameters if (target := pointee(kind))}
    unknown = incomplete(targets, include, headers, work)
    untyped = sorted(needed - by_hand - set(functions))
    names = [function.name for function in typed] + untyped
    lines = [f"#include <{header}>" for header in headers]
    lines += [
        *[f"#undef {name}" for name in names],  # cuda.h calls cuMemAlloc what is cuMemAlloc_v2
        '#define EXPORT __attribute__((visibility("default")))',
        "#define IS_HANDLE(x) (__builtin_classify_type(x) == 5)",
        "void nullcuda_count(int number);",
        "void nullcuda_fill(void* at, size_t size, int handle);",
        "int nullcuda_refuse(int of_run_time);",
        f"const int nullcuda_stub_count = {len(names)};",
        "const char* const nullcuda_stub_names[] = {" + ", ".join(f'"{name}"' for name in names) + "};",
    ]
    lines += [body(function, number, unknown) for number, function in enumerate(typed)]
    lines += [
        f"EXPORT long {name}(void) {{ nullcuda_count({number}); return 0; }}"
        for number, name in enumerate(untyped, len(typed))
    ]
    source.write_text("\n".join(lines) + "\n")
    return untyped
