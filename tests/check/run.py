# Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
"""Runs one program under ACLGRAD_CHECK and compares what is found with the table of programs (programs/program.h)."""

import argparse
import os
import platform
import re
import signal
import subprocess
import sys

EXIT_STATUS_OF_ERROR_MODE = 86


def expected_findings(table, name):
    """A regular expression for each."""
    listing = subprocess.run([table], capture_output=True, text=True, check=True).stdout
    if platform.machine() != "x86_64":  # where the processor does not say which it was
        listing = re.sub(r"the host (reads|writes)", "the host uses", listing)
    findings = re.findall(rf"^{name} (.*)$", listing, re.MULTILINE)
    return [re.escape(finding).replace(r"\.\.\.", ".*") for finding in findings]


def compare_findings(expected, found):
    """One sentence for each finding that is missing or too many."""
    left = list(found)
    for pattern in expected:
        line = next((line for line in left if re.fullmatch(pattern, line)), None)
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
    parser.add_argument("name", nargs="?", help="of a row, if the program is the table")
    parser.add_argument("--mode", default="error", choices=["0", "1", "error", "abort"])
    parser.add_argument("--arguments", nargs="*", default=[], help="of the program")
    arguments = parser.parse_args()

    name = [arguments.name] if arguments.name else []
    expected = expected_findings(arguments.program, *name) if name and arguments.mode != "0" else []
    environment = dict(os.environ, ACLGRAD_CHECK=arguments.mode, ACLGRAD_DEVICES="cpu")
    command = [arguments.program, *name, *arguments.arguments]
    result = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)

    found = re.findall(r"^aclgrad check: (.*)$", result.stderr, re.MULTILINE)
    mistakes = list(compare_findings(expected, found))
    place = re.compile(rf"[Aa]t ({arguments.name}\(\S*\) )?\(check_table\+0x")  # a lambda has no name
    mistakes += [f"no place in the program: {line}" for line in found if not place.search(line)]
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
