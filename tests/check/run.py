# Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
"""Runs one program under ACLGRAD_CHECK and compares what is found with what the program's first comments say.

    // Finding: <kind>: <regular expression>     one for each finding, in any order
    // Finding: none
    // Needs: watched words     skipped where the system does not let a process watch its own memory
"""

import argparse
import ctypes
import os
import pathlib
import platform
import re
import signal
import struct
import subprocess
import sys

EXIT_STATUS_OF_ERROR_MODE = 86
EXIT_STATUS_OF_SKIPPED_TEST = 77


def expected_findings(source):
    findings = re.findall(r"^// Finding: (.*)$", source, re.MULTILINE)
    if not findings:
        sys.exit("the program does not say what is to be found")
    return [] if findings == ["none"] else findings


def may_watch_words():
    """Whether perf_event_open gives this process a watchpoint."""
    number = {"x86_64": 298, "aarch64": 241}.get(platform.machine())
    if number is None:
        return False
    word = ctypes.c_uint64()
    breakpoint_type, exclude_kernel, reads_and_writes = 5, 1 << 5, 3
    address = ctypes.addressof(word)
    attributes = struct.pack(
        "=IIQQQQQIIQQ", breakpoint_type, 72, 0, 1, 0, 0, exclude_kernel, 0, reads_and_writes, address, 8
    )
    event = ctypes.CDLL(None, use_errno=True).syscall(number, attributes, 0, -1, -1, 0)
    if event >= 0:
        os.close(event)
    return event >= 0


def compare_findings(expected, found):
    """One sentence for each finding that is missing or too many."""
    left = list(found)
    for pattern in expected:
        line = next((line for line in left if re.match(pattern, line)), None)
        if line is None:
            yield f"not found: {pattern}"
        else:
            left.remove(line)
    for line in left:
        yield f"found, but no mistake: {line}"


def expected_status(mode, findings):
    if mode == "error" and findings:
        return EXIT_STATUS_OF_ERROR_MODE
    return -signal.SIGABRT if mode == "abort" and findings else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("program")
    parser.add_argument("source", nargs="?", help="without it the program must have no findings")
    parser.add_argument("--mode", default="error", choices=["0", "1", "error", "abort"])
    parser.add_argument("--setting", help="of ACLGRAD_CHECK, where it is not the mode itself")
    parser.add_argument("--arguments", nargs="*", default=[], help="of the program")
    arguments = parser.parse_args()

    source = pathlib.Path(arguments.source).read_text() if arguments.source else "// Finding: none"
    if "// Needs: watched words" in source and not may_watch_words():
        print("skipped: the system lets no process watch its own memory")
        return EXIT_STATUS_OF_SKIPPED_TEST
    expected = expected_findings(source)
    if arguments.mode == "0":
        expected = []
    environment = dict(os.environ, ACLGRAD_CHECK=arguments.setting or arguments.mode, ACLGRAD_DEVICES="cpu")
    command = [arguments.program, *arguments.arguments]
    result = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)

    found = re.findall(r"^aclgrad check: (.*)$", result.stderr, re.MULTILINE)
    mistakes = list(compare_findings(expected, found))
    status = expected_status(arguments.mode, expected)
    if result.returncode != status:
        mistakes.append(f"expected exit status {status}, got {result.returncode}")
    ends_with_summary = arguments.mode == "1" or arguments.mode == "error"
    if ends_with_summary != ("aclgrad check summary: " in result.stderr):
        mistakes.append("a summary is missing, or there is one that should not be")
    print(result.stderr, *mistakes, sep="\n")
    return 1 if mistakes else 0


if __name__ == "__main__":
    sys.exit(main())
