# Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
"""For scikit-build-core: the version that version.sh prints."""

import pathlib
import subprocess


def dynamic_metadata(field, settings):
    return subprocess.check_output([pathlib.Path(__file__).with_suffix(".sh")], text=True).strip()
