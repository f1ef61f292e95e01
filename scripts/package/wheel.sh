#!/bin/sh
# wheel.sh [OUT [PIP-OPTION...]]: builds a wheel in OUT (default dist/), and tags it for the oldest version of glibc with which
# its programs run. Needs pip and PyPI.
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
out=${1-$root/dist}
[ $# -eq 0 ] || shift
mkdir -p "$out"
out=$(cd "$out" && pwd)
cd "$root"
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
python3 -m venv "$scratch/env"
"$scratch/env/bin/pip" install -q --disable-pip-version-check wheel
"$scratch/env/bin/pip" wheel -q --disable-pip-version-check --no-deps -w "$scratch" "$@" .
wheel=$(ls "$scratch"/tpx-*.whl)
mkdir "$scratch/files"
(cd "$scratch/files" && python3 -m zipfile -e "$wheel" .)
# Each library in the wheel, and each library that is linked into tpx, must come with its license.
data=$(echo "$scratch"/files/tpx-*.data/data)
linked="hdf5 cli11 nlohmann-json"
! grep -q cudaGetDeviceProperties "$data/bin/tpx" || linked="$linked cudart"
for library in $linked $(cd "$data/lib/tpx" && ls); do
    case $library in libtpx-*) continue ;; esac
    [ -s "$data/share/doc/tpx/licenses/$library" ] || { echo "wheel: the license of $library is missing" >&2; exit 1; }
done
# The newest version of glibc that any file of the wheel needs.
version=$(objdump -T "$data/bin/tpx" "$data"/lib/tpx/* |
    grep -o 'GLIBC_2\.[0-9]*' | sed 's/GLIBC_2\.//' | sort -n | tail -n 1)
[ -n "$version" ] || { echo "wheel: found no program that needs glibc" >&2; exit 1; }
"$scratch/env/bin/wheel" tags --remove --platform-tag "manylinux_2_${version}_$(uname -m)" "$wheel" >/dev/null
mv "$scratch"/tpx-*.whl "$out"
ls -l "$out"/tpx-*.whl
