#!/bin/sh
# elastic.sh TPX MODE [OPTION]: examples/elastic trains on real stores, with the same losses as a job that never
# changes.
set -u
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=tests/interop/frameworks.sh
. "$here/frameworks.sh"
# shellcheck source=tests/interop/warm_python.sh
. "$here/warm_python.sh"
command -v mpirun >/dev/null || { echo "skipped: no mpirun"; exit 77; }
scratch=$(mktemp -d) || exit 1
trap 'rm -rf "$scratch"' EXIT
elastic=$here/../../examples/elastic
warm_python "$scratch" torch._dynamo "$elastic/train.py" # 20 ranks import both
python3 "$elastic/elastic.py" "$2" "$scratch/run" --tpx "$1" --python "$scratch/warm-python" --steps 3 ${3:+"$3"} || exit 1
grep -q '<polyline' "$scratch/run/losses.svg" || { echo "elastic: no picture"; exit 1; }
