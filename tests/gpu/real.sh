#!/bin/sh
# real.sh TPX: measures the GPUs of this machine with one rank, and with two. Skipped (77) where CUDA can use none.
set -eu
tpx=$1
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=scripts/mpi-env.sh
. "$here/../../scripts/mpi-env.sh"
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
"$tpx" profile hardware --skip memory --skip disk --skip links --seconds 5 -o "$out/one.toml" >"$out/said" 2>&1
grep -q '^to_device = \[' "$out/one.toml" || { echo "skipped: no GPU that CUDA can use, or a build without CUDA"; exit 77; }
cat "$out/said"
# A tenth of what PCIe and the memory of any GPU of the last ten years can: others may use them.
awk -F '[][, ]+' '/^(to_device|from_device) =/ && $3 < 1e8 { bad = 1 } /^copy =/ && $3 < 5e9 { bad = 1 } END { exit bad }' "$out/one.toml"
mpirun -n 2 "$tpx" profile hardware --skip memory --skip disk --skip links --seconds 5 -o "$out/two.toml"
grep -q '^gpu_ipc = \[' "$out/two.toml"
