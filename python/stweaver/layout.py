"""Where the parts of an installation lie: beside this file, or in the checkout that this file belongs to."""

from dataclasses import dataclass
from pathlib import Path

from stweaver import variables
from stweaver.error import Error

_PACKAGE = Path(__file__).resolve().parent
_CHECKOUT = _PACKAGE.parent.parent


@dataclass(frozen=True)
class Layout:
    """The native parts; `library` and `command` need not exist."""

    library: Path  # libstweaver.so: the core
    command: Path  # the native `stweaver`
    adapters: Path  # the folder of the adapters' sources
    headers: Path  # the folder that our headers are included from
    prebuilt: Path  # the folder of the adapters that are built already: RELEASE/SOURCE.so
    lacking: Path  # the list of what was lacking to build the command

    @property
    def pluggable(self) -> Path:
        """The adapter that needs no building."""
        return self.library.with_name("libstweaver_pluggable.so")


def find() -> Layout:
    """Name the parts of this installation, whether built or not."""
    native = _PACKAGE / "native"
    packaged = native.is_dir()
    built = native if packaged else _CHECKOUT / "build" / "release"
    return Layout(
        library=variables.LIBRARY.path or built / "libstweaver.so",
        command=built / "stweaver",
        adapters=native / "torch" if packaged else _CHECKOUT / "torch",
        headers=native / "include" if packaged else _CHECKOUT / "src",
        prebuilt=built / "adapters",
        lacking=native / "lacking.txt",
    )


def find_library() -> Path:
    """Return the path of libstweaver.so; Error when it is not there."""
    library = find().library
    if library.is_file():
        return library.resolve()
    if variables.LIBRARY.value:
        raise Error(f"no such file: {library}; correct {variables.LIBRARY.full_name}")
    raise Error(
        f"no such file: {library}; build it (`tools/build.sh release stweaver_library`) "
        "or install the package (`pip install .`)"
    )


def find_command() -> Path:
    """Return the path of the native command; Error when it was not built."""
    layout = find()
    if layout.command.is_file():
        return layout.command
    if layout.lacking.is_file():
        raise Error(
            f"this package was built without the command, for want of {layout.lacking.read_text().strip()}; "
            "install that and then the package again"
        )
    raise Error(f"no such file: {layout.command}; build it: make build")
