"""The wheel that tools/wheel.py built, as a user has it: installed by pip, and no compiler anywhere.

Each test runs with every CUDA build of PyTorch that tools/cuda_torch.sh put into build/cuda-torch. Their GPU
is null CUDA, which runs no kernels: losses are those of a job on the CPU.
"""

import json
import os
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
DIST = ROOT / "build" / "wheel" / "dist"
TORCHES = sorted((ROOT / "build" / "cuda-torch").glob("*/bin/python"))
TRANSFORMER = ROOT / "tests" / "python" / "small_transformer.py"
LAYERS = ROOT / "tests" / "nullcuda" / "programs" / "train_layers.py"
MOST_BYTES = 25_000_000  # of what goes to others
NOT_IN_SDIST = ("bench/", "examples/", "nullcuda/", "tests/", "tools/", ".")
LISTING = ("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
SECONDS = 1.0  # that the first enable() of a process may take: nothing is built

FIRST_ENABLE = """
import sys, time, torch, stweaver
begin = time.monotonic()
stweaver.enable(device=sys.argv[1])
print(time.monotonic() - begin)
"""


class User:
    """Somebody with the wheel, a PyTorch and no compiler: the PATH leads nowhere."""

    def __init__(self, python: Path, installed: Path, home: Path) -> None:
        """Use this Python, where the wheel was installed, and an empty folder."""
        self.python, self.cache = python, home / "cache"
        kept = {
            name: value for name, value in os.environ.items() if not name.startswith(("STWEAVER_", "CXX"))
        }
        self.variables = kept | {
            "PATH": str(home),
            "PYTHONPATH": os.pathsep.join([str(ROOT / "nullcuda" / "python"), str(installed)]),
            "STWEAVER_CACHE": str(self.cache),
            "OMP_NUM_THREADS": "1",
        }
        self.variables.setdefault("NULLCUDA_CACHE", str(ROOT / "build" / "nullcuda"))

    def run(self, *program: str | Path) -> str:
        """Run a program of Python's on null CUDA and return what it prints."""
        command = [self.python, "-m", "nullcuda", "run", "--", self.python, *program]
        done = subprocess.run(
            command,
            env=self.variables,
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            timeout=600,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout


@pytest.fixture(scope="module")
def wheel() -> Path:
    """Name the wheel that was built."""
    found = list(DIST.glob("stweaver-*.whl"))
    assert len(found) == 1, f"no wheel in {DIST}: run make wheel"
    return found[0]


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Install it into a folder of its own."""
    folder = tmp_path_factory.mktemp("installed")
    pip = (sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-index")
    subprocess.run([*pip, "--target", folder, wheel], check=True)
    return folder


@pytest.fixture(params=TORCHES, ids=lambda python: python.parts[-3])
def user(request: pytest.FixtureRequest, installed: Path, tmp_path: Path) -> User:
    """Give somebody with each PyTorch."""
    return User(request.param, installed, tmp_path)


def test_there_are_two_releases_of_torch_to_try() -> None:
    assert len(TORCHES) >= 2, "run tools/cuda_torch.sh 2.8.0 and tools/cuda_torch.sh 2.15.0"


def test_one_wheel_serves_every_python_from_glibc_2_28_on(wheel: Path) -> None:
    assert wheel.name.endswith("-py3-none-manylinux_2_28_x86_64.whl")
    assert wheel.stat().st_size < MOST_BYTES


def test_the_sdist_has_all_that_the_package_is_built_from_and_nothing_else() -> None:
    (sdist,) = DIST.glob("stweaver-*.tar.gz")
    assert sdist.stat().st_size < MOST_BYTES
    with tarfile.open(sdist) as archive:
        found = {name.partition("/")[2] for name in archive.getnames()}
    tracked = subprocess.run(LISTING, cwd=ROOT, capture_output=True, text=True, check=True)
    wanted = {name for name in tracked.stdout.split("\0") if name and not name.startswith(NOT_IN_SDIST)}
    assert found == wanted | {"PKG-INFO"}


def test_the_command_is_in_the_wheel(installed: Path) -> None:
    command = installed / "stweaver" / "native" / "stweaver"
    trace = ROOT / "examples" / "snapshots" / "steps.pickle.xz"
    done = subprocess.run([command, "plan", trace, "--json"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["ratio"] == 1


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_the_first_enable_builds_nothing(user: User, device: str) -> None:
    seconds = float(user.run("-c", FIRST_ENABLE, device))
    print(f"first enable() on {device}: {seconds:.3f} s")
    assert seconds < SECONDS
    assert not user.cache.exists()


def test_a_job_on_the_cpu_trains_as_without(user: User) -> None:
    plain = json.loads(user.run(TRANSFORMER, "plain"))
    under = json.loads(user.run(TRANSFORMER, "enable"))
    assert under["losses"] == plain["losses"]
    assert under["last_step_hits"] > 9 * under["last_step_misses"]
    assert not user.cache.exists()


def test_a_job_on_a_gpu_follows_its_plan(user: User) -> None:
    hits, reserved = user.run(LAYERS, "stweaver", "40").splitlines()
    assert int(hits.split()[1]) > 0
    assert int(reserved.split()[1]) > 0
    assert not user.cache.exists()


def test_doctor_says_which_adapter_was_chosen(user: User) -> None:
    found = {part["part"]: part for part in json.loads(user.run("-m", "stweaver", "facts"))["findings"]}
    assert all(part["works"] for part in found.values())
    assert found["adapter"]["detail"].startswith("for cuda devices: came with the package, for PyTorch 2.")
    assert found["compiler"]["detail"].startswith("none, and none is needed")


def test_an_adapter_is_the_same_whichever_cuda_it_is_built_for(tmp_path: Path) -> None:
    """One adapter serves CUDA 12 and 13, because compiled with the headers of either it is the same code."""
    headers = ROOT / "build" / "torch-headers"
    releases = {
        (headers / release / "wheels").read_text().count("cu12"): release for release in ("2.8", "2.15")
    }
    assert len(releases) == 2, "one is of CUDA 12 and one is not"
    codes = set()
    for release in releases.values():
        target = tmp_path / f"{release}.o"
        include = [f"-I{ROOT / folder}" for folder in ("src", "torch")]
        torch = headers / "2.8" / "include"
        system = (torch, torch / "torch" / "csrc" / "api" / "include", headers / release / "cuda")
        options = ("-std=c++20", "-O2", "-fPIC", *include, *(f"-isystem{folder}" for folder in system))
        source = ROOT / "torch" / "cuda_wrapper.cc"
        subprocess.run([os.environ.get("CXX", "c++"), *options, "-c", source, "-o", target], check=True)
        listing = subprocess.run(
            ["objdump", "--disassemble", "--reloc", target.name],
            cwd=tmp_path,
            capture_output=True,
            check=True,
        )
        codes.add(listing.stdout.partition(b"Disassembly")[2])
    assert len(codes) == 1
