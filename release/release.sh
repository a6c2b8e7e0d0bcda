#!/usr/bin/env bash
# Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
# Makes what is released of the commit that is checked out, in build/release-artifacts/: wheels, the source package, the
# prefix as an archive and as a Debian package, its binary interface, a bill of materials, and checksums. Two runs of one
# commit give the same bytes: times are the commit's, and no path of this machine goes into the files.
# Run it as ./dev release, which installs what it needs and tries the results in clean systems (release/try.sh). With the
# argument "package", as ./dev package runs it: only the archive and the Debian package for this machine, in build/package/.
set -euo pipefail
cd "$(dirname "$0")/.."

artifacts=$PWD/build/${1:-release-artifacts}
work=$PWD/build/release-work
source=$work/source
tools=$PWD/build/release-environment/bin
python_of_debian13=$(readlink -m build/debian13-python)
architecture=$(uname -m)

[ -z "$(git status --porcelain)" ] || { echo "release: commit or stash the changes first" >&2 && exit 1; }
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
export SOURCE_DATE_EPOCH
umask 022
# Debian's variables for who makes a package. The address that stands in for theirs can belong to nobody.
export maintainer="${DEBFULLNAME:-the aclgrad authors} <${DEBEMAIL:-noreply@aclgrad.invalid}>"

unpack_sources() {
  rm -rf "$artifacts" "$work"
  mkdir -p "$artifacts" "$source"
  git archive HEAD | tar --extract --directory "$source"
  version=$(cmake/version.sh)
  export ACLGRAD_VERSION=$version  # the unpacked sources know no git
}

# The same compiler and options for everything, so that a compiler cache serves all builds of one processor.
export CC=cc CXX=c++ CFLAGS="-ffile-prefix-map=$work=." CXXFLAGS="-ffile-prefix-map=$work=."

build_prefix() {  # architecture, options
  cmake -S "$source" -B "$source/build/$1" -G Ninja -DCMAKE_BUILD_TYPE=Release -DACLGRAD_CUDA=OFF -DACLGRAD_ATEN=OFF -DACLGRAD_TESTS=OFF \
    -DACLGRAD_BENCHMARKS=OFF "${@:2}" >/dev/null
  cmake --build "$source/build/$1"
}

install_prefix() {  # architecture, prefix, and the folder that stands for / where it is not /
  DESTDIR=${3:-} cmake --install "$source/build/$1" --strip --prefix "$2" >/dev/null
}

make_archive() {  # architecture, options
  local name=aclgrad-$version-linux-$1
  build_prefix "$1" -DACLGRAD_BUNDLE=ON "${@:2}"
  install_prefix "$1" "$work/$name"
  tar --create --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner --directory "$work" "$name" |
    gzip --best --no-name >"$artifacts/$name.tar.gz"
}

# What is released is what the repository says, so that a change of it is one that somebody made on purpose.
describe_abi() {
  local prefix=$work/aclgrad-$version-linux-$architecture soname description
  soname=$(readlink "$prefix/lib64/libaclgrad.so")
  description=release/abi/${soname#libaclgrad.so.}
  "$tools/python" "$source/release/abi.py" "$prefix" "$source/$description" --exact ||
    { echo "release: CONTRIBUTING.md says how to renew $description" >&2 && return 1; }
  cp "$source/$description" "$artifacts/aclgrad-$version-linux-$architecture.abi"
}

# In a folder of its own, since the prefix has the layout and the names of another product.
make_debian_package() {
  local root=$work/debian documents=$work/debian/usr/share/doc/aclgrad
  build_prefix "$architecture" -DACLGRAD_BUNDLE=OFF
  install_prefix "$architecture" /usr/lib/aclgrad "$root"
  mkdir -p "$documents"
  cp "$source/release/debian.copyright" "$documents/copyright"
  cp "$source/SECURITY.md" "$documents"
  gzip --best --no-name <"$source/CHANGELOG.md" >"$documents/changelog.gz"
  printf 'aclgrad (%s-1) unstable; urgency=medium\n\n  * changelog.gz lists the changes.\n\n -- %s  %s\n' "${version/.dev/~dev}" \
    "$maintainer" "$(date --utc --rfc-email --date "@$SOURCE_DATE_EPOCH")" |
    gzip --best --no-name >"$documents/changelog.Debian.gz"
  find "$root" -exec touch --no-dereference --date "@$SOURCE_DATE_EPOCH" {} +
  (cd "$work" && version=${version/.dev/~dev} root=$root cpack --config "$source/release/debian.cmake" >/dev/null)
  mv "$work"/aclgrad_*.deb "$artifacts"
}

make_source_package() {
  "$tools/python" -m build --sdist --outdir "$artifacts" "$source" >/dev/null
  tar --extract --gzip --file "$artifacts/aclgrad-$version.tar.gz" --directory "$work"
}

# Debian 12's Python makes the wheel for 3.11, Debian 13's that for 3.12 and later.
make_wheels() {
  local python
  for python in /usr/bin/python3.11 "$python_of_debian13/python"; do
    make_wheel "$python"
    [ "$architecture" != x86_64 ] || make_wheel_for_aarch64 "$python"
  done
  PATH=$tools:$PATH auditwheel repair --wheel-dir "$artifacts" "$work"/wheels/*.whl
  check_wheels
}

check_wheels() {
  local tag file platforms=("$architecture")
  [ "$architecture" != x86_64 ] || platforms+=(aarch64)
  for tag in cp311-cp311 cp312-abi3; do
    for file in "${platforms[@]/#/"$artifacts/aclgrad-$version-$tag-manylinux_2_35_"}"; do
      [ -e "$file.whl" ] || { echo "release: there is no $file.whl" >&2 && return 1; }
      [ "$(stat --format %s "$file.whl")" -lt 15000000 ] ||
        { echo "release: $file.whl has 15 MB or more" >&2 && return 1; }
    done
  done
}

make_wheel() {  # interpreter, options of pip
  CFLAGS="$CFLAGS -I$python_of_debian13/usr/include" CXXFLAGS="$CXXFLAGS -I$python_of_debian13/usr/include" \
    "$tools/pip" --python "$1" wheel --quiet --no-deps --wheel-dir "$work/wheels" \
    --config-settings cmake.define.ACLGRAD_CUDA=OFF "${@:2}" "$work/aclgrad-$version"
}

# The variables are those by which Python's build tools learn what they build for. The stub is that of the wheel before.
make_wheel_for_aarch64() {  # interpreter
  local suffix headers=$work/arm64-python
  suffix=$("$1" -c 'import sysconfig; print(sysconfig.get_config_var("EXT_SUFFIX").replace("x86_64", "aarch64"))')
  [ -e "$headers" ] || unpack_arm64_headers "$headers"
  rm -rf "$work/native-wheel"
  "$tools/python" -m zipfile --extract "$(ls --sort=time "$work"/wheels/*.whl | head -1)" "$work/native-wheel"
  CFLAGS="$CFLAGS -I$headers/usr/include" CXXFLAGS="$CXXFLAGS -I$headers/usr/include" \
    CMAKE_TOOLCHAIN_FILE=$source/cmake/aarch64-linux-gnu.cmake \
    _PYTHON_HOST_PLATFORM=linux-aarch64 SETUPTOOLS_EXT_SUFFIX=$suffix \
    make_wheel "$1" --config-settings "cmake.define.ACLGRAD_CORE_STUB=$work/native-wheel/aclgrad/_core.pyi"
}

# Debian's header pyconfig.h includes that of the processor. It is not installed, as Debian wants both processors' Python in
# one version then.
unpack_arm64_headers() {  # folder
  mkdir -p "$1"
  (cd "$1" && apt-get download --quiet=2 --option APT::Sandbox::User=root libpython3.11-dev:arm64 && dpkg-deb --extract *.deb .)
}

make_list() {
  cd "$artifacts"
  "$tools/python" ../../release/sbom.py "$version" "$SOURCE_DATE_EPOCH" * >"aclgrad-$version.cdx.json"
  sha256sum * >SHA256SUMS
  ls -l
}

unpack_sources
make_archive "$architecture"
if [ "${1:-}" = package ]; then
  make_debian_package
  ls "$artifacts"/*
  exit
fi
make_source_package
describe_abi
[ "$architecture" != x86_64 ] ||
  make_archive aarch64 -DCMAKE_TOOLCHAIN_FILE="$source/cmake/aarch64-linux-gnu.cmake"
make_debian_package
make_wheels
make_list
