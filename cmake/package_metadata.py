# Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
"""For scikit-build-core: the version that version.sh prints, and the pages of the repository that ACLGRAD_REPOSITORY
names. The release workflow sets it: the sources do not know where they are published."""

import os
import pathlib
import subprocess


def dynamic_metadata(settings, project):
    version = subprocess.check_output([pathlib.Path(__file__).with_name("version.sh")], text=True).strip()
    repository = os.environ.get("ACLGRAD_REPOSITORY")
    pages = {"Repository": "", "Issues": "/issues", "Changes": "/blob/HEAD/CHANGELOG.md", "Security": "/security"}
    return {"version": version, "urls": {name: repository + page for name, page in pages.items()} if repository else {}}
