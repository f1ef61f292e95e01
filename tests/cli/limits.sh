#!/bin/bash
# limits.sh TPX: with few file descriptors, a full disk or a small /dev/shm, tpx writes the right output, or prints one
# line and writes none. The disk and /dev/shm need root and loop devices; without them, only descriptors are limited.
# tests/faults injects disks that fill during writes.
set -u
tpx=$1
# shellcheck source=scripts/mpi-env.sh
. "$(dirname "$0")/../../scripts/mpi-env.sh"
scratch=$(mktemp -d)
cleanup() {
    ! mountpoint -q "$scratch/disk" || umount "$scratch/disk"
    rm -rf "$scratch"
}
trap cleanup EXIT
trap 'exit 130' INT TERM
fail() {
    echo "limits: $*" >&2
    cat "$scratch/err" >&2
    exit 1
}

# 20 MB in one tensor.
head='{"w":{"dtype":"F32","shape":[5000,1000],"data_offsets":[0,20000000]}}'
mkdir "$scratch/hf"
{
    printf "\\$(printf '%03o' ${#head})\0\0\0\0\0\0\0%s" "$head"
    seq 10000000 | head -c 20000000
} >"$scratch/hf/model.safetensors"

# same OUT: OUT contains the state of the source.
same() { "$tpx" verify "$scratch/hf" "$1" >"$scratch/said" 2>"$scratch/err" || fail "$1 differs from its source"; }

# One rank writes 64 files with 40 descriptors; three ranks read them again.
(ulimit -n 40 && "$tpx" reshard "$scratch/hf" "$scratch/many" --to fsdp=64 --format dcp) >"$scratch/said" \
    2>"$scratch/err" || fail "40 descriptors are too few for 64 files"
same "$scratch/many"
(ulimit -n 64 && mpirun -n 3 "$tpx" reshard "$scratch/many" "$scratch/one" --to fsdp=1 --format dcp) >"$scratch/said" \
    2>"$scratch/err" || fail "64 descriptors are too few to read 64 files"
same "$scratch/one"
(ulimit -n 12 && "$tpx" reshard "$scratch/hf" "$scratch/few" --to fsdp=64 --format dcp) >"$scratch/said" 2>"$scratch/err"
[ $? -eq 1 ] || fail "exit status with 12 descriptors is not 1"
grep -q "^tpx: .*: Too many open files" "$scratch/err" || fail "no message about descriptors"
[ ! -e "$scratch/few" ] || fail "an output in spite of too few descriptors"

[ "$(id -u)" -eq 0 ] && command -v mkfs.ext4 unshare >/dev/null || exit 0

# Open MPI can store its files elsewhere than in /dev/shm.
if unshare -m mount -t tmpfs -o size=64k tmpfs /dev/shm 2>/dev/null; then
    # shellcheck disable=SC2016 # the inner shell expands it
    OMPI_MCA_btl_vader_backing_directory=$scratch unshare -m sh -c '
        mount -t tmpfs -o size=64k tmpfs /dev/shm &&
        mpirun -n 3 "$1" reshard "$2/many" "$2/shm" --to fsdp=3 --format dcp' sh "$tpx" "$scratch" >"$scratch/said" \
        2>"$scratch/err" || fail "a small /dev/shm"
    same "$scratch/shm"
fi

truncate -s 16M "$scratch/image"
mkfs.ext4 -q "$scratch/image"
mkdir "$scratch/disk"
mount -o loop "$scratch/image" "$scratch/disk" 2>/dev/null || exit 0
mpirun -n 2 "$tpx" reshard "$scratch/hf" "$scratch/disk/out" --to fsdp=4 --format dcp >"$scratch/said" 2>"$scratch/err"
[ $? -eq 1 ] || fail "exit status with too small a disk is not 1"
grep -q "^tpx: .*: [0-9]* bytes are needed, [0-9]* are free" "$scratch/err" || fail "no message about the disk"
[ "$(ls "$scratch/disk")" = lost+found ] || fail "something was left on the disk that is too small"
