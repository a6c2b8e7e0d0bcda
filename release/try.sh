#!/usr/bin/env bash
# Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
# Tries the files in build/release-artifacts/ in clean systems made by debootstrap, which are kept in build/roots/: the wheels
# on Debian 12 (Python 3.11) and Debian 13 (3.13), neither of which has a compiler, those for AArch64 there, too, under QEMU;
# the archive and the Debian package on a Debian 12 that has g++ alone; and the guides for Python. The commands are those of
# the page on installing. Needs root. Nothing in those systems reaches a network but apt-get.
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

# The commands of docs/guides/install.md that follow some words.
commands_after() {  # words
  sed -n "/$1/,\$ { /^\`\`\`sh/,/^\`\`\`\$/ { /^\`\`\`\$/q; /^\`/!p } }" docs/guides/install.md
}

# The system gets the packages as files, since it reaches no index. Their versions are those of the tests.
fill_with_wheels() {  # root, version of Python, packages, further files
  local platform=
  case $1 in *-arm64) platform=--platform=manylinux_2_28_aarch64 ;; esac
  mkdir -p "$roots/wheels-for-$1"
  build/release-environment/bin/pip download --quiet --python-version "$2" --only-binary=:all: $platform \
    --constraint tests/requirements.txt --dest "$roots/wheels-for-$1" $3
  fill "$1" "$roots/wheels-for-$1" "$artifacts"/*.whl "${@:4}"
}

# Makes an environment and installs the wheel.
install_wheel() {  # root, tag of its Python
  local machine=x86_64
  case $1 in *-arm64) machine=aarch64 ;; esac
  echo "cd /try && rm -rf ~/environment && export PIP_NO_INDEX=1 PIP_FIND_LINKS=/try/wheels-for-$1 PIP_QUIET=1"
  commands_after 'The wheel, for Python' | sed "s/cp311/$2/; s/x86_64/$machine/"
}

try_wheel() {  # root, version of Python, its tag, packages
  echo "---- The wheel in $1"
  ! inside "$1" 'command -v cc gcc g++ clang' || { echo "There is a compiler in $1" && return 1; }
  fill_with_wheels "$1" "$2" "$4" release/try.py
  inside "$1" "$(install_wheel "$1" "$3")
    pip install $4 && python try.py"
}

# All of a guide, one block after the other, in an environment with what the page installs.
try_guide() {  # name
  local root=debian12-guides packages
  packages=$(sed -n 's/^pip install \. //p' "docs/guides/$1.md")
  echo "---- The guide $1.md in $root"
  fill_with_wheels $root 3.11 "pytest $packages" README.md docs python/tests/test_documentation.py
  inside $root "$(install_wheel $root cp311)
    pip install pytest $packages && mkdir -p python/tests && mv test_documentation.py python/tests
    pytest --quiet -p no:cacheprovider -k $1 python/tests"
}

try_archive() {
  echo "---- The archive, in a folder with a space, in debian12-gxx"
  fill debian12-gxx examples/example.h "$artifacts"/*-linux-"$(uname -m)".tar.gz
  cp examples/moe_bias.cpp "$roots/debian12-gxx/try/program.cpp"
  inside debian12-gxx "rm -rf '/a folder' && mv /try '/a folder' && cd '/a folder'
    $(commands_after 'The archive, for programs' | sed "s/x86_64/$(uname -m)/")
    ./program"
}

try_debian_package() {
  echo "---- The Debian package in debian12-gxx"
  fill debian12-gxx examples "$artifacts"/*.deb
  inside debian12-gxx "cd /try && echo 'APT::Get::Assume-Yes \"true\";' >/etc/apt/apt.conf.d/yes
    $(commands_after 'The Debian package, which' | sed "s/amd64/$(dpkg --print-architecture)/")
    g++ -O2 examples/moe_bias.cpp -o moe_bias -I /usr/lib/aclgrad/include -L /usr/lib/aclgrad/lib64 \
      -lopapi -lnnopbase -lascendcl
    ./moe_bias
    cd / && apt-get purge aclgrad >/dev/null && apt-get autopurge >/dev/null
    ! ls /usr/lib/aclgrad 2>/dev/null"
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
root debian12 bookworm python3,python3-venv
try_wheel debian12 3.11 cp311 'numpy torch'
root debian13 trixie python3,python3-venv
try_wheel debian13 3.13 cp312 numpy
root debian12-guides bookworm g++,python3,python3-venv
try_guide train
try_guide verify
root debian12-gxx bookworm g++
try_archive
try_debian_package
if [ "$(uname -m)" = x86_64 ]; then
  root debian12-arm64 bookworm python3,python3-venv
  try_wheel debian12-arm64 3.11 cp311 numpy
  root debian13-arm64 trixie python3,python3-venv
  try_wheel debian13-arm64 3.13 cp312 numpy
  try_aarch64_archive
fi
