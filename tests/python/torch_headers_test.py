"""tools/torch_headers.py: which headers belong to a release of PyTorch."""

import pytest
import torch_headers


@pytest.mark.parametrize(
    ("requirement", "wanted"),
    [
        (
            'nvidia-cuda-runtime-cu12==12.8.90; platform_system == "Linux"',
            ["nvidia-cuda-runtime-cu12==12.8.90", "nvidia-cuda-nvcc-cu12==12.8.*"],
        ),
        ("cuda-toolkit[cublas,cudart]==13.0.2", ["cuda-toolkit[cudart,crt]==13.0.2"]),
    ],
)
def test_cuda_headers_are_of_the_release_that_torch_depends_on(requirement: str, wanted: list[str]) -> None:
    torch = {"metadata": {"requires_dist": ["filelock", requirement]}}
    assert torch_headers.cuda_requirements(torch) == wanted


def test_a_build_for_the_cpu_is_refused() -> None:
    with pytest.raises(SystemExit, match="no CUDA run time"):
        torch_headers.cuda_requirements({"metadata": {"requires_dist": ["filelock"]}})
