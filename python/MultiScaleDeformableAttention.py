# Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
"""The extension of Deformable DETR and of the models made from it, for which no CUDA sources have to be compiled.

It has the functions of that extension, see `aclgrad.torch.ms_deform_attn`. The extension itself goes first wherever it
is installed: in this folder by Python's own order, in which a compiled module or a package precedes a file like this
one, and elsewhere because this module then hands over to it.
"""

import importlib.util
import os
import sys
from importlib.machinery import ModuleSpec, PathFinder


def _installed_extension() -> ModuleSpec | None:
    """The first module of this name that is no copy of this one."""
    for finder in sys.meta_path:
        folders: list[list[str] | None] = [[folder] for folder in sys.path] if finder is PathFinder else [None]
        for folder in folders if hasattr(finder, "find_spec") else ():
            spec = finder.find_spec(__name__, folder)
            if spec is not None and spec.loader is not None and not _is_copy(spec):
                return spec
    return None


def _is_copy(spec: ModuleSpec) -> bool:
    """Whether aclgrad lies beside it."""
    folder, name = os.path.split(spec.origin or "")
    return name == f"{__name__}.py" and os.path.isdir(os.path.join(folder, "aclgrad"))


_spec = _installed_extension()
if _spec is not None and _spec.loader is not None:
    # The import that runs this returns what stands in sys.modules at its end.
    sys.modules[__name__] = importlib.util.module_from_spec(_spec)
    _spec.loader.exec_module(sys.modules[__name__])
else:
    from aclgrad.torch.ms_deform_attn import ms_deform_attn_backward, ms_deform_attn_forward

    __all__ = ["ms_deform_attn_backward", "ms_deform_attn_forward"]
