# Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
"""The operators in PyTorch: with gradients, under torch.compile, torch.export and autocast, on CPUs.

Where aclgrad was built with CUDA, they also take tensors on NVIDIA GPUs (tested on an H200). There they run on the
current stream, wait for nothing, and can be captured in CUDA graphs. `torch.use_deterministic_algorithms` makes their
results bitwise reproducible.

They are custom operators (`torch.ops.aclgrad.*`). Only the gradients that are needed are computed. There are
derivatives of any order, forward and backward, and `torch.func` transforms the operators: `grad`, `vjp`, `jvp`,
`jacrev`, `jacfwd`, `hessian`, `linearize`, and `vmap`, which runs one kernel for all calls. Indices have to be the same
for all of them.

All floating-point tensors of a call have one type, unless autocast is on; each function says what it does then.
Contents of indices are checked if they lie in the memory of the CPU. On a GPU they are not checked, because that would
wait for the GPU; kernels skip what lies outside.

`patch` makes Hugging Face transformers, mmcv, other packages and `torch.nn.functional.grid_sample` use the operators.
The module `MultiScaleDeformableAttention` has the functions of the extension of that name, `aclgrad.torch.npu` those of
torch_npu.
"""

try:
    import torch as _torch
except ModuleNotFoundError as _error:
    if _error.name != "torch":
        raise
    _message = "aclgrad.torch needs PyTorch 2.10 or later: pip install 'aclgrad[torch]'"
    raise ImportError(_message, name=__name__) from None

if tuple(int(_part) for _part in _torch.__version__.split(".")[:2]) < (2, 10):
    _message = f"aclgrad.torch needs PyTorch 2.10 or later, got {_torch.__version__}: pip install 'aclgrad[torch]'"
    raise ImportError(_message, name=__name__)

from . import operators
from .operators import *  # noqa: F403
from .patches import patch, patched, unpatch

__all__ = ["patch", "patched", "unpatch"]
__all__ += operators.__all__
