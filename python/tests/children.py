# Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
"""Processes forked from this one."""

import os
import signal
import traceback
from collections.abc import Callable

SECONDS_OF_CHILD = 60  # a child that hangs is ended by the alarm


def in_child(work: Callable[[], object]) -> int:
    """The exit status of a forked process that does `work`; below zero the signal that ended it."""
    child = os.fork()
    if child == 0:
        signal.alarm(SECONDS_OF_CHILD)
        try:
            work()
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
