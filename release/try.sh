#!/usr/bin/env bash
# Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
# Tries the files in build/release-artifacts/ in clean systems made by debootstrap, which are kept in build/roots/: the wheels
# on Debian 12 (Python 3.11) and Debian 13 (3.13), neither of which has a compiler, those for AArch64 there, too, under QEMU;
# the archive and the Debian package on a Debian 12 that has g++ alone. Needs root. Nothing in those systems reaches a network but apt-get.
set -euo pipefail
cd "$(dirname "$0")/.."
artifacts=$PWD/build/release-artifacts
roots=$PWD/build/roots

root() {  # name, suite, packages
  [ -e "$roots/$1/finished" ] && return
  echo "Making a clean system: $1"
  rm -rf "${roots:?}/$1"
  mkdir -p "$roots"
  case $1 in
    *-arm64) unpack_arm64_system "$@" ;;
    *) debootstrap --variant=minbase --include="$3" "$2" "$roots/$1" >"$roots/$1.log" ;;
  esac
  touch "$roots/$1/finished"
}

# Packages are unpacked and not configured: that takes long on an emulator, and Python does not need it.
unpack_arm64_system() {  # name, suite, packages
  debootstrap --foreign --arch=arm64 --variant=minbase --include="$3" "$2" "$roots/$1" >"$roots/$1.log"
  local package
  for package in "$roots/$1"/var/cache/apt/archives/*.deb; do dpkg-deb --extract "$package" "$roots/$1"; done
  # Debian's pip loads this file, which configuring would make.
  cat "$roots/$1"/usr/share/ca-certificates/mozilla/*.crt >"$roots/$1/etc/ssl/certs/ca-certificates.crt"
}

inside() {  # root, commands
  local enter=(chroot .)
  case $1 in *-arm64) enter=(proot --rootfs=. --cwd=/ --bind=/proc --bind=/dev --qemu=qemu-aarch64) ;; esac
  unshare --mount sh -euc 'cd "$1" && mount -t proc proc proc && mount --rbind /dev dev && shift && exec "$@"' - "$roots/$1" \
    env -i DEBIAN_FRONTEND=noninteractive HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8 \
    "${enter[@]}" /bin/sh -euc "$2"
}

fill() {  # root, files: into its folder /try
  rm -rf "$roots/$1/try"
  mkdir "$roots/$1/try"
  cp -r "${@:2}" "$roots/$1/try"
}

try_wheel() {  # root, version of Python, requirements
  local root=$1 python=$2 platform=
  case $root in *-arm64) platform=--platform=manylinux_2_28_aarch64 ;; esac
  echo "---- The wheel in $root"
  ! inside "$root" 'command -v cc gcc g++ clang' || { echo "There is a compiler in $root" && return 1; }
  mkdir -p "$roots/wheels-for-$root"
  build/release-environment/bin/pip download --quiet --python-version "$python" --only-binary=:all: $platform \
    --dest "$roots/wheels-for-$root" "${@:3}"
  fill "$root" release/try.py "$roots/wheels-for-$root" "$artifacts"/*.whl
  inside "$root" "cd /try && python3 -m venv environment &&
    environment/bin/pip install --quiet --no-index --find-links . --find-links wheels-for-$root aclgrad ${*:3} &&
    environment/bin/python try.py"
}

try_archive() {
  echo "---- The archive, moved, in debian12-gxx"
  fill debian12-gxx examples "$artifacts"/*-linux-"$(uname -m)".tar.gz
  inside debian12-gxx 'cd /try && tar xzf *.tar.gz && rm *.tar.gz && mv aclgrad-*-linux-* "a folder" && . "a folder/set_env.sh" &&
    '"$(example '$ASCEND_HOME_PATH')"
}

try_debian_package() {
  echo "---- The Debian package in debian12-gxx"
  fill debian12-gxx examples "$artifacts"/*.deb
  inside debian12-gxx 'cd /try && apt-get install -qq ./*.deb >/dev/null && . /usr/lib/aclgrad/set_env.sh &&
    '"$(example /usr/lib/aclgrad)"' && cd / && apt-get purge -qq aclgrad >/dev/null && apt-get autopurge -qq >/dev/null &&
    ! ls /usr/lib/aclgrad 2>/dev/null'
}

# What the cross-compiler makes, with Debian's arm64 libraries of C and C++.
try_aarch64_archive() {
  echo "---- The archive for aarch64, under QEMU"
  local folder
  folder=$(mktemp --directory)
  tar --extract --gzip --file "$(echo "$artifacts"/*-linux-aarch64.tar.gz)" --directory "$folder" --strip-components 1
  aarch64-linux-gnu-g++ -O2 examples/moe_bias.cpp -o "$folder/moe_bias" -I "$folder/include" -L "$folder/lib64" \
    -lopapi -lnnopbase -lascendcl
  qemu-aarch64 -E LD_LIBRARY_PATH="$folder/lib64" "$folder/moe_bias"
  rm -r "$folder"
}

example() {  # prefix
  echo "g++ -O2 examples/moe_bias.cpp -o moe_bias -I \"$1/include\" -L \"$1/lib64\" -lopapi -lnnopbase -lascendcl && ./moe_bias"
}

# THIRD_PARTY.md names the texts. Those of the Python extension are in the wheels alone.
check_licences() {
  local texts of_library name listing
  texts=$(grep -oP '`\K[\w-]+\.txt(?=`)' THIRD_PARTY.md)
  of_library=$(grep -v 'the Python extension' THIRD_PARTY.md | grep -oP '`\K[\w-]+\.txt(?=`)')
  [ "$(wc -w <<<"$texts $of_library")" = 10 ] || { echo "THIRD_PARTY.md must name 6 texts, 4 of them of the library" && return 1; }
  for name in "$artifacts"/*.whl; do
    listing=$(python3 -m zipfile --list "$name")
    has_texts "$name" aclgrad/licenses "$listing" $texts
    has_texts "$name" dist-info/licenses "$listing" LICENSE THIRD_PARTY.md
  done
  for name in "$artifacts"/*-linux-*.tar.gz; do
    has_texts "$name" licenses "$(tar --list --gzip --file "$name")" LICENSE THIRD_PARTY.md $of_library
  done
  for name in "$artifacts"/*.deb; do
    has_texts "$name" licenses "$(dpkg-deb --contents "$name")" LICENSE THIRD_PARTY.md $of_library
  done
}

has_texts() {  # file, its folder, what it holds, names of texts
  local text
  for text in "${@:4}"; do
    grep --quiet --extended-regexp "$2/$text( |\$)" <<<"$3" || { echo "$1 lacks $2/$text" && return 1; }
  done
}

(cd "$artifacts" && sha256sum --quiet --check SHA256SUMS)
check_licences
lintian --fail-on error --suppress-tags initial-upload-closes-no-bugs "$artifacts"/*.deb
torch=$(grep '^torch==' tests/pytorch/requirements.txt)
root debian12 bookworm python3,python3-venv
try_wheel debian12 3.11 numpy "$torch"
root debian13 trixie python3,python3-venv
try_wheel debian13 3.13 numpy
root debian12-gxx bookworm g++
try_archive
try_debian_package
if [ "$(uname -m)" = x86_64 ]; then
  root debian12-arm64 bookworm python3,python3-venv
  try_wheel debian12-arm64 3.11 numpy
  root debian13-arm64 trixie python3,python3-venv
  try_wheel debian13-arm64 3.13 numpy
  try_aarch64_archive
fi
