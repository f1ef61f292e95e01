#!/bin/sh
# wheel.sh [OUT [PIP-OPTION...]]: makes a wheel in OUT (dist/ without it), with the tag of the oldest systems that have the C
# library which its programs need. Needs pip and PyPI.
set -eu
cd "$(dirname "$0")/../.."
out=${1-dist}
[ $# -eq 0 ] || shift
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
python3 -m venv "$scratch/env"
"$scratch/env/bin/pip" install -q --disable-pip-version-check wheel
"$scratch/env/bin/pip" wheel -q --disable-pip-version-check --no-deps -w "$scratch" "$@" .
wheel=$(ls "$scratch"/tpx-*.whl)
mkdir "$scratch/files"
(cd "$scratch/files" && python3 -m zipfile -e "$wheel" .)
# The newest version of glibc that any of its files needs.
version=$(find "$scratch/files" -type f \( -path '*/bin/tpx' -o -name '*.so*' \) -exec objdump -T {} + |
    grep -o 'GLIBC_2\.[0-9]*' | sed 's/GLIBC_2\.//' | sort -n | tail -n 1)
"$scratch/env/bin/wheel" tags --remove --platform-tag "manylinux_2_${version}_$(uname -m)" "$wheel" >/dev/null
mkdir -p "$out"
mv "$scratch"/tpx-*.whl "$out"
ls -l "$out"/tpx-*.whl
