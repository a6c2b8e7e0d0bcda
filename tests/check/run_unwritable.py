# Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
"""Runs programs whose standard streams or files cannot be written, and compares how they end."""

import argparse
import os
import pathlib
import signal
import subprocess
import sys
import tempfile

EXIT_STATUS_OF_ERROR_MODE = 86

mistakes = []


def run(command, mode, redirection):
    environment = dict(os.environ, ACLGRAD_CHECK=mode, ACLGRAD_DEVICES="cpu")
    command = ["sh", "-c", f'exec "$@" {redirection}', "sh", *command]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)


def expect(result, status, message=None):
    """`message` must be all that is on standard error, in one line."""
    if result.returncode != status:
        mistakes.append(f"{result.args}: expected status {status}, got {result.returncode}: {result.stderr}")
    if message is not None and not (message in result.stderr and len(result.stderr.splitlines()) == 1):
        mistakes.append(f"{result.args}: expected one line with {message!r}, got {result.stderr!r}")


def test_findings(table, right):
    for redirection in ("2>/dev/full", "2>&-"):
        for mode, status in (("1", 0), ("error", EXIT_STATUS_OF_ERROR_MODE), ("abort", -signal.SIGABRT)):
            expect(run([table, "race"], mode, redirection), status)
        expect(run([right], "error", redirection), 0)


def test_output(program):
    for redirection in (">/dev/full", ">&-"):
        expect(run([program], "0", redirection), 1, "standard output cannot be written")


def test_pictures(program, photo):
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "before.png").symlink_to("/dev/full")
        expect(run([program, photo, name], "0", ""), 1, "before.png")
        (folder / "file").touch()
        expect(run([program, photo, str(folder / "file" / "pictures")], "0", ""), 1, "Not a directory")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--table", required=True, help="the table of programs")
    parser.add_argument("--right-program", required=True, help="one that prints and has none")
    parser.add_argument("--pictures", nargs=2, metavar=("PROGRAM", "PHOTO"), help="one that writes pictures")
    arguments = parser.parse_args()
    test_findings(arguments.table, arguments.right_program)
    test_output(arguments.right_program)
    if arguments.pictures is not None:
        test_pictures(*arguments.pictures)
    print(*mistakes, sep="\n")
    return 1 if mistakes else 0


if __name__ == "__main__":
    sys.exit(main())
