# Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
"""Arrays of other kinds than NumPy's."""


class OnlyDLPack:
    """What has DLPack and nothing else."""

    def __init__(self, array):
        self.array = array

    def __dlpack__(self, **options):
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()
