"""Where the kernels are tested: on a GPU, or with TRITON_INTERPRET=1 in Triton's interpreter."""

import os

import pytest
import torch

NO_GPU = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device is visible")
NO_INTERPRETER = pytest.mark.skipif(
    not os.environ.get("TRITON_INTERPRET"), reason="set TRITON_INTERPRET=1 to run Triton kernels in its interpreter"
)
DEVICES = [
    pytest.param("cuda", marks=[pytest.mark.gpu, NO_GPU]),
    pytest.param("cpu", marks=NO_INTERPRETER, id="interpreter"),
]


@pytest.fixture(params=DEVICES)
def device(request):
    pytest.importorskip("triton", reason="Triton comes with GPU builds of torch only")
    return torch.device(request.param)
