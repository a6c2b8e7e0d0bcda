"""The operators in PyTorch, on CPUs: with gradients, under torch.compile, torch.export and autocast.

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
