"""Where the kernels are tested: on a GPU where there is one, else in Triton's interpreter, which needs none."""

import os

import pytest
import torch

NO_GPU = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device is visible")
NO_INTERPRETER = pytest.mark.skipif(
    not os.environ.get("TRITON_INTERPRET"),
    reason="the kernels are tested on the GPU; TRITON_INTERPRET=1 interprets them",
)
DEVICES = [
    pytest.param("cuda", marks=[pytest.mark.gpu, NO_GPU]),
    pytest.param("cpu", marks=NO_INTERPRETER, id="interpreter"),
]


@pytest.fixture(params=DEVICES)
def device(request):
    pytest.importorskip("triton", reason="Triton is not installed: pip install 'maggnn[dev]' on Linux")
    return torch.device(request.param)
