# Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
"""mutants.py [--filter REGEX] [--check]: plants the faults of faults.txt one at a time, and says which the tests find.

In a copy of the tree, build/mutants. Fails where a fault survives, which a test must then be made to find, and where
the lines of a fault are not in their file once: the table follows the sources. --check looks for the latter alone.
"""

import argparse
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
from typing import NamedTuple

ROOT = pathlib.Path(__file__).resolve().parents[2]
COPY = ROOT / "build/mutants"
BUILD = COPY / "build/release"
TIMEOUT_S = 120


class Fault(NamedTuple):
    file: str
    suites: list[str]
    old: str
    new: str

    def __str__(self) -> str:
        return f"{self.file}: {' '.join(self.old.split())} -> {' '.join(self.new.split()) or 'nothing'}"


def read_faults(table: str) -> list[Fault]:
    """Sections begin with `file: suites`; in them `-` lines become the `+` lines behind them, other lines a word."""
    words = {"x": "", "t": "true", "f": "false"}
    faults = []
    for section in re.split(r"\n\n+", table):
        if head := re.search(r"^([\w./-]+): (.*)$", section, re.MULTILINE):
            for old, new in re.findall(r"((?:^- .*\n)+|^[xtf] .*\n?)((?:^\+ .*\n?)*)", section, re.MULTILINE):
                before, after = ("\n".join(line[2:] for line in part.splitlines()) for part in (old, new))
                faults.append(Fault(head[1], head[2].split(), before, words.get(old[0], after)))
    return faults


def problem_of(fault: Fault) -> str | None:
    path = ROOT / fault.file
    count = path.read_text().count(fault.old) if path.exists() else 0
    return None if count == 1 else f"is {count} times in the file: {fault}"


def copy_tree() -> None:
    """With times of files that have changed only, so that a later run builds little."""
    listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listing = subprocess.run(listed, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    names = {name for name in listing.split("\0") if (ROOT / name).is_file()}
    for name in names:
        source, copy = ROOT / name, COPY / name
        if not copy.is_file() or source.read_bytes() != copy.read_bytes():
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, copy)
    for top in COPY.iterdir():
        for copy in top.rglob("*") if top.name not in (".venv", "build") else ():
            if copy.is_file() and str(copy.relative_to(COPY)) not in names:
                copy.unlink()
    for name in (".venv", "build/nvcc"):
        link = COPY / name
        link.parent.mkdir(parents=True, exist_ok=True)
        if (ROOT / name).exists() and not link.exists():
            link.symlink_to(ROOT / name)


def run(command: list[str]) -> bool:
    """Whether it succeeds in time; otherwise it is ended, with all that it has started."""
    environment = {**os.environ, "PYTHONPATH": str(BUILD / "package")}
    process = subprocess.Popen(
        command, cwd=COPY, env=environment, start_new_session=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    try:
        process.communicate(timeout=TIMEOUT_S)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
    return process.returncode == 0


def build(targets: list[str], jobs: int, **environment: str) -> bool:
    command = ["cmake", "--build", str(BUILD), "--parallel", str(jobs), "--target", *targets]
    return subprocess.run(command, env={**os.environ, **environment}, capture_output=True).returncode == 0


def target_of(suite: str) -> str:
    name = suite.split(":")[0]
    return {"python": "_core", "checked": "check_table"}.get(name, f"test_{name}")


def passes(suite: str) -> bool:
    """Runs the program test_NAME of `NAME`, of `NAME:FILTER` some of its tests; `checked:NAME` is a row of
    tests/check/programs, and `python:NAME` a file of python/tests."""
    name, _, part = suite.partition(":")
    if name == "checked":
        return run(["ctest", "--test-dir", str(BUILD), "--tests-regex", f"^check\\.{part}$", "--no-tests=error"])
    if name == "python":
        install = ["cmake", "--install", str(BUILD), "--component", "python", "--prefix", str(BUILD / "package")]
        tests = [".venv/bin/python", "-m", "pytest", "-qx", "--rootdir", "python/tests", f"python/tests/{part}.py"]
        return run(install) and run(tests)
    program = str(BUILD / "tests" / f"test_{name}")
    return run([program, "--gtest_brief=1", "--gtest_fail_fast", f"--gtest_filter={part or '*'}"])


def plant(fault: Fault, jobs: int) -> str:
    """What came of it: "found by ...", "SURVIVED" or "does not build"."""
    path = COPY / fault.file
    text = path.read_text()
    path.write_text(text.replace(fault.old, fault.new))
    try:
        # What a run leaves in a compiler cache that is broken off may be of the file as it was.
        if not build([target_of(suite) for suite in fault.suites], jobs, CCACHE_DISABLE="1"):
            return "DOES NOT BUILD"
        finder = next((suite for suite in fault.suites if not passes(suite)), None)
        return f"found by {finder}" if finder else "SURVIVED"
    finally:
        path.write_text(text)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--filter", default="", help="of the faults as they are printed")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    options = parser.parse_args()

    faults = read_faults((ROOT / "tests/mutants/faults.txt").read_text())
    problems = [problem for fault in faults if (problem := problem_of(fault))]
    if problems or options.check:
        print(*problems, f"{len(faults)} faults", sep="\n")
        sys.exit(bool(problems))

    chosen = [fault for fault in faults if re.search(options.filter, str(fault))]
    if not chosen:
        sys.exit(f"no fault matches {options.filter}")
    copy_tree()
    subprocess.run(["cmake", "--preset", "test"], cwd=COPY, capture_output=True, check=True)
    suites = sorted({suite for fault in chosen for suite in fault.suites})
    if not build([target_of(suite) for suite in suites], options.jobs):
        sys.exit("the tree without a fault does not build")
    if failing := [suite for suite in suites if not passes(suite)]:
        sys.exit(f"without a fault there fail {', '.join(failing)}")
    outcomes = []
    for number, fault in enumerate(chosen, 1):
        outcomes.append(plant(fault, options.jobs))
        print(f"{number:3} {outcomes[-1]}: {fault}", flush=True)
    missed = sum(not outcome.startswith("found") for outcome in outcomes)
    print(f"{len(chosen) - missed} of {len(chosen)} faults were found")
    sys.exit(missed > 0)


main()
