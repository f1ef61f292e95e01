#!/bin/sh
# reshard.sh TPX TESTDATA: reshards a checkpoint as a Slurm job step of four tasks.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
tpx=$1
[ "${3:-}" = inside ] || exec sh "$here/cluster.sh" 2 2 -- sh "$here/reshard.sh" "$tpx" "$2" inside
checkpoint=$2/llama-small/megatron-tp2pp2

out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
srun --mpi=pmix -n4 "$tpx" reshard "$checkpoint" "$out/tp4" --to tp=4
"$tpx" verify "$checkpoint" "$out/tp4"

# Tasks that do not know of each other must not write the same files.
if srun --mpi=none -n2 "$tpx" reshard "$checkpoint" "$out/strangers" --to tp=4 2>"$out/said"; then exit 1; fi
grep -q 'srun started 2 tasks without MPI' "$out/said"
[ ! -e "$out/strangers" ]
