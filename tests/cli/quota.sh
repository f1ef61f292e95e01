#!/bin/bash
# quota.sh TPX: an output that exceeds the quota of a btrfs subvolume, in a mounted file: one line names the file,
# nothing has the final name, and the same command completes the output once the quota is lifted. Exits with 77
# (skipped) if btrfs cannot be mounted.
set -u
tpx=$1
# shellcheck source=scripts/mpi-env.sh
. "$(dirname "$0")/../../scripts/mpi-env.sh"
unset OMPI_COMM_WORLD_RANK PMIX_RANK PMI_RANK SLURM_PROCID SLURM_JOB_ID
[ "$(id -u)" -eq 0 ] || { echo "skipped: only root may mount a file system"; exit 77; }
scratch=$(mktemp -d)
cleanup() {
    cd / && mountpoint -q "$scratch/at" && umount "$scratch/at"
    rm -rf "$scratch"
}
trap cleanup EXIT
trap 'exit 130' INT TERM
fail() {
    echo "quota: $*" >&2
    cat "$scratch/err" >&2
    exit 1
}
cd "$scratch" || exit
mkdir at

# 20 MB in one tensor.
head='{"w":{"dtype":"F32","shape":[5000,1000],"data_offsets":[0,20000000]}}'
mkdir hf
{
    printf "\\$(printf '%03o' ${#head})\0\0\0\0\0\0\0%s" "$head"
    seq 10000000 | head -c 20000000
} >hf/model.safetensors

truncate -s 300M image
if ! { mkfs.btrfs -q image && mount -o loop image at && btrfs quota enable at && btrfs subvolume create at/v &&
    btrfs qgroup limit 12M at/v; } >said 2>err; then
    echo "skipped: no quotas of btrfs here: $(tail -n 1 err)"
    exit 77
fi

reshard() { mpirun -n "$1" "$tpx" reshard hf at/v/out --to fsdp=4 --format dcp >said 2>err; }
for ranks in 1 2; do
    rm -rf at/v/out*
    reshard $ranks
    [ $? -eq 1 ] || fail "$ranks ranks: exit status is not 1"
    [ "$(grep '^tpx:' err | grep -vc 'tpx: note:')" -eq 1 ] || fail "$ranks ranks: not one line"
    grep -Eq "^tpx: (rank [01]: )?at/v/out[^:]*: Disk quota exceeded" err || fail "$ranks ranks: no message about the quota"
    [ ! -e at/v/out ] || fail "$ranks ranks: an output in spite of the quota"
done
btrfs qgroup limit none at/v 2>err || fail "cannot lift the limit"
reshard 1 || fail "the next run fails without a limit"
"$tpx" verify hf at/v/out >said 2>err || fail "the output differs from its source"
[ "$(find at/v -mindepth 1 -maxdepth 1)" = at/v/out ] || fail "something is left"
