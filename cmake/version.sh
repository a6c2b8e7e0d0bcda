#!/bin/sh
# Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
# Prints the version of this tree: 0.1.0 at the tag v0.1.0, and in an archive without git; between releases
# 0.1.0.dev12+gabc1234, with the number of commits since the last release and the commit. ACLGRAD_VERSION overrides it,
# and a source package of Python has its own in PKG-INFO.
set -eu
cd "$(dirname "$0")/.."
version=$(sed -nE 's/^#define ACLGRAD_VERSION_(MAJOR|MINOR|PATCH) ([0-9]+)$/\2/p' include/aclgrad/version.h | paste -sd . -)
if [ -n "${ACLGRAD_VERSION:-}" ]; then
  version=$ACLGRAD_VERSION
elif [ -e PKG-INFO ]; then
  version=$(sed -n 's/^Version: //p' PKG-INFO)
elif [ -e .git ] && commit=$(git rev-parse HEAD 2>/dev/null) && ! git tag --points-at HEAD | grep -qx "v$version"; then
  last=$(git describe --tags --abbrev=0 --match 'v[0-9]*' 2>/dev/null || true)
  version=$version.dev$(git rev-list --count "${last:+$last..}HEAD")+g$(echo "$commit" | cut -c1-7)
fi
echo "$version"
