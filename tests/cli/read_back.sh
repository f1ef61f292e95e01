#!/bin/bash
# read_back.sh TPX WRONG_WRITES: reshard --verify finds a wrongly written bit, also with a cast, with other strides and
# with two ranks, and the next run repairs it.
set -u
tpx=$1
wrong_writes=$2
# shellcheck source=scripts/mpi-env.sh
. "$(dirname "$0")/../../scripts/mpi-env.sh"
unset OMPI_COMM_WORLD_RANK PMIX_RANK PMI_RANK SLURM_PROCID SLURM_JOB_ID
scratch=$(mktemp -d) && trap 'rm -rf "$scratch"' EXIT
fail() {
    echo "read_back: $*" >&2
    cat "$scratch/err" >&2
    exit 1
}
cd "$scratch" || exit

# 24 MB of weights.
head='{"model.w.weight":{"dtype":"F32","shape":[3000,1000],"data_offsets":[0,12000000]},"model.v.weight":{"dtype":"F32","shape":[3000,1000],"data_offsets":[12000000,24000000]}}'
mkdir hf
{
    printf "\\$(printf '%03o' ${#head})\0\0\0\0\0\0\0%s" "$head"
    seq 4000000 | head -c 24000000
} >hf/model.safetensors

# finds COMMAND...: COMMAND fails with a wrong write, and leaves no output; without a wrong write, it succeeds.
finds() {
    rm -rf out*
    if "$@" -x LD_PRELOAD="$wrong_writes" "$tpx" reshard hf out "${options[@]}" >out.txt 2>err; then fail "$* ${options[*]}: finds nothing"; fi
    grep -q "^tpx: tensor 'model\.[vw]\.weight': read back with digest .* instead of " err || fail "$* ${options[*]}: wrong message"
    [ ! -e out ] || fail "$* ${options[*]}: an output with a wrong byte"
    # Files of the failed run are read back as well; the wrong part is written again.
    "$@" "$tpx" reshard hf out "${options[@]}" >out.txt 2>err || fail "$* ${options[*]}: the next run failed"
}
for target in "--to tp=1 --format dcp" "--to fsdp=3 --format dcp" "--to tp=1 --dtype bf16" "--to fsdp=2,fsdp_dim=1 --format dcp"; do
    read -ra options <<<"$target --verify --quiet"
    finds mpirun -n 1
    finds mpirun -n 2
done
