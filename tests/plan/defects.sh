#!/bin/sh
# defects.sh TPX: checks that former defects of tpx plan do not return. Exits with 77 (skipped) without a Python with
# h5py and numpy.
set -eu
tpx=$(realpath "$1")
cd "$(dirname "$0")/../.."
# shellcheck source=tests/plan/with_python.sh
. tests/plan/with_python.sh
"$python" tests/plan/defects.py "$tpx" "$scratch"
