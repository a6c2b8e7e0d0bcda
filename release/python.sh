#!/usr/bin/env bash
# Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
# python.sh FOLDER: puts Debian 13's Python into a folder, with its headers for x86-64 and AArch64, beside which no others
# lie. Debian 12 has no Python that the wheels for 3.12 and later can be built with. FOLDER/python runs it with its own C
# library; compilers, headers and libraries of C and C++ stay those of this machine.
set -euo pipefail
folder=$1
native=$(dpkg --print-architecture)
packages=(python3.13{,-minimal} libpython3.13-{minimal,stdlib,dev} libc6 libgcc-s1 libstdc++6
  libbz2-1.0 libexpat1 libffi8 liblzma5 libssl3t64 libzstd1 zlib1g)
[ "$native" = arm64 ] || packages+=(libpython3.13-dev:arm64)

rm -rf "$folder"
mkdir -p "$folder"/apt/{lists/partial,cache/archives/partial}
cd "$folder"
echo "deb [arch=$native,arm64 signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] http://deb.debian.org/debian trixie main" \
  >apt/sources.list

apt_of_debian13() {
  apt-get --quiet=2 --option Dir::Etc::SourceList="$PWD/apt/sources.list" --option Dir::Etc::SourceParts=- \
    --option Dir::State="$PWD/apt" --option Dir::Cache="$PWD/apt/cache" --option APT::Sandbox::User=root "$@"
}

apt_of_debian13 update
apt_of_debian13 download "${packages[@]}"
for package in *.deb; do dpkg-deb --extract "$package" .; done
rm -r apt ./*.deb

cat >python <<'TEXT'
#!/bin/sh
folder=$(dirname "$(readlink -f "$0")")
libraries=$(echo "$folder"/usr/lib/*-linux-gnu/libc.so.6)
libraries=${libraries%/*}
PYTHONHOME=$folder/usr exec "$libraries"/ld-linux-*.so.* --argv0 "$folder/python" --library-path "$libraries" \
  "$folder/usr/bin/python3.13" "$@"
TEXT
chmod +x python
./python --version
touch finished
