#!/bin/sh
# Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
# Installs the package by the commands of the page on installing, in a clean virtual environment, and runs the tests there.
# usage: [EXTRA_PACKAGES="torch==2.13.0"] python/run_tests.sh [folder of work, default build/python-test] [arguments of pytest …]
# Tests that need a package which is not there, PyTorch or JAX, are skipped.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
work=${1:-$root/build/python-test}
[ $# -gt 0 ] && shift
python=${PYTHON:-python3}

mkdir -p "$work"
work=$(cd "$work" && pwd)
rm -rf "$work/environment"
cd "$root"
: "${OSTYPE=}"  # which the activation of Python 3.12.1 reads, and sh does not set
eval "$(sed -n '/^## With pip/,/^## / { /^```sh/,/^```$/ { /^`/!p } }' docs/guides/install.md |
  sed "s|^python3|'$python'|; s|~/environment|'$work/environment'|g")"
pip install --quiet --requirement python/tests/requirements.txt ${EXTRA_PACKAGES:-}
cd "$work"
# Not from the root, where the sources lie that must not be imported in place of the wheel.
python -m pytest -q --rootdir "$root/python/tests" -p no:cacheprovider "$root/python/tests" "$@"
