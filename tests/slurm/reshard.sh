#!/bin/sh
# reshard.sh TPX TESTDATA: reshards a checkpoint as a Slurm job step of four tasks. Skipped (77) where no cluster answers.
set -eu
tpx=$1
checkpoint=$2/llama-small/megatron-tp2pp2
command -v srun >/dev/null || { echo "skipped: no srun"; exit 77; }
timeout 10 sinfo --noheader 2>/dev/null | grep -q idle || { echo "skipped: no Slurm cluster with idle nodes"; exit 77; }

out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
srun --mpi=pmix -n4 "$tpx" reshard "$checkpoint" "$out/tp4" --to tp=4
"$tpx" verify "$checkpoint" "$out/tp4"

# Tasks that do not know of each other must not write the same files.
if srun --mpi=none -n2 "$tpx" reshard "$checkpoint" "$out/strangers" --to tp=4 2>"$out/said"; then exit 1; fi
grep -q 'srun started 2 tasks without MPI' "$out/said"
[ ! -e "$out/strangers" ]
