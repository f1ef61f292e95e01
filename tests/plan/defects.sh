#!/bin/sh
# defects.sh TPX: defects that plans once had stay mended. Exit 77: no Python with h5py and numpy.
set -eu
tpx=$(realpath "$1")
cd "$(dirname "$0")/../.."
# shellcheck source=tests/plan/with_python.sh
. tests/plan/with_python.sh
"$python" tests/plan/defects.py "$tpx" "$scratch"
