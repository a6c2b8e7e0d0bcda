# Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
"""Runs one program under ACLGRAD_CHECK and compares what is found with what the program's first comments say.

    // Finding: <kind>: <regular expression>     one for each finding, in any order
    // Finding: none
"""

import argparse
import os
import pathlib
import re
import signal
import subprocess
import sys

EXIT_STATUS_OF_ERROR_MODE = 86


def expected_findings(source):
    findings = re.findall(r"^// Finding: (.*)$", source, re.MULTILINE)
    if not findings:
        sys.exit("the program does not say what is to be found")
    return [] if findings == ["none"] else findings


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
