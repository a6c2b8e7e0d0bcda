"""The operators in PyTorch: with gradients, under torch.compile, torch.export and autocast, on CPUs and, where aclgrad
was built with CUDA, on NVIDIA GPUs. There they run on the current stream, wait for nothing and can be captured in CUDA
graphs; `torch.use_deterministic_algorithms` gives the same bits run after run.

They are custom operators (`torch.ops.aclgrad.*`). Only the gradients that are needed are computed; there are no second
derivatives. All floating-point tensors of a call have one type, unless autocast is on; each function says what it does
then. `patch` makes Hugging Face transformers, mmcv and `torch.nn.functional.grid_sample` use them.
"""

from .operators import grid_sample, grouped_bias_add, multi_scale_deformable_attention, nsa_compress
from .patches import patch, patched, unpatch

__all__ = [
    "grid_sample",
    "grouped_bias_add",
    "multi_scale_deformable_attention",
    "nsa_compress",
    "patch",
    "patched",
    "unpatch",
]
