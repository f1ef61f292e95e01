#!/bin/sh
# run.sh TPX SLOW_WRITES: tests the Python module in the source tree with the program TPX. Exits with 77 (skipped)
# without Python 3.9.
set -eu
tpx=$1 slow=$2
here=$(cd "$(dirname "$0")" && pwd)
cd "$here"
# shellcheck source=tests/with_python.sh
. ../with_python.sh
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
mkdir "$scratch/lib" "$scratch/work"
cp -R ../../cmd/python/tpx "$scratch/lib"
python3 ../../cmd/python/make_documents.py ../../man/schemas "$scratch/lib/tpx/documents.py"
export PYTHONPATH="$scratch/lib" TPX_PROGRAM="$tpx"
cd "$scratch/work"
python3 "$here/documents.py" "$here/../../man/schemas"
python3 "$here/module.py" "$here/../../testdata"
python3 "$here/processes.py" "$here/../../testdata"
python3 "$here/progress.py" "$slow"
