#!/usr/bin/env bash
# Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
# keep.sh data|calls FILE...: adds inputs to a regression corpus in corpora.tar.xz, as libFuzzer would name them.
set -euo pipefail
folder=$(mktemp --directory)
archive=$(dirname "$0")/corpora.tar.xz
tar --extract --file "$archive" --directory "$folder"
for file in "${@:2}"; do cp "$file" "$folder/$1/$(sha1sum <"$file" | cut -d' ' -f1)"; done
tar --create --xz --file "$archive" --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner --directory "$folder" calls data
rm -r "$folder"
