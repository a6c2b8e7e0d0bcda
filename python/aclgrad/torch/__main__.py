# Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
"""Lists what `aclgrad.torch.patch` finds installed and would replace: `python -m aclgrad.torch`."""

from __future__ import annotations

import importlib
import signal

from .patches import TARGETS, Target, find, package_of, why_not_found


def main() -> None:
    for target in TARGETS:
        for line in _lines(target):
            print(line)


def _lines(target: Target) -> list[str]:
    try:
        names = [name for _, name, *_ in find(target)]
    except AttributeError as error:
        return [f"{target}: of a version that cannot be patched: {error}"]
    if not names:
        return [f"{target}: {why_not_found(target)}"]
    package = package_of(target)
    version = getattr(importlib.import_module(package), "__version__", "of unknown version")
    return [f"{target}: {package} {version}", *(f"  {name}" for name in names)]


if __name__ == "__main__":
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # whoever reads it may have read enough
    main()
