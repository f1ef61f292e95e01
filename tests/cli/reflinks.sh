#!/bin/bash
# reflinks.sh TPX SHIM: on file systems that can share blocks, tpx reshard shares the blocks of tensors that it moves
# unchanged. On XFS and btrfs in mounted files: the output takes no space for them, equals the output elsewhere, and
# stays unchanged when the source changes; a killed run continues. Exits with 77 (skipped) if nothing can be mounted.
set -u
tpx=$1 shim=$2
# shellcheck source=scripts/mpi-env.sh
. "$(dirname "$0")/../../scripts/mpi-env.sh"
unset OMPI_COMM_WORLD_RANK PMIX_RANK PMI_RANK SLURM_PROCID SLURM_JOB_ID
skip() {
    echo "skipped: $*"
    exit 77
}
[ "$(id -u)" -eq 0 ] || skip "only root may mount a file system"
command -v filefrag >/dev/null || skip "no filefrag here"
scratch=$(mktemp -d)
cleanup() {
    cd / && mountpoint -q "$scratch/at" && umount "$scratch/at"
    rm -rf "$scratch"
}
trap cleanup EXIT
fail() {
    echo "reflinks: $kind: $*" >&2
    cat "$scratch/err" "$scratch/out.txt" >&2
    exit 1
}
cd "$scratch" && cd "$(pwd -P)" || exit
mkdir at elsewhere

# 96 MB of weights: three matrices of 32 MB and a vector, with a header of arbitrary length.
tensor() { printf '"%s":{"dtype":"F32","shape":[%s],"data_offsets":[%d,%d]}' "$@"; }
matrix=$((8192 * 1024 * 4))
head="{\"__metadata__\":{\"format\":\"pt\"},$(tensor model.a.weight 8192,1024 0 $matrix),$(tensor model.b.weight 8192,1024 \
    $matrix $((2 * matrix))),$(tensor model.c.weight 8192,1024 $((2 * matrix)) $((3 * matrix))),$(tensor model.d.weight 1024 \
    $((3 * matrix)) $((3 * matrix + 4096)))}"
while [ $((${#head} % 8)) -ne 0 ]; do head+=" "; done
mkdir source
{
    printf "\\$(printf '%03o' $((${#head} % 256)))\\$(printf '%03o' $((${#head} / 256)))\0\0\0\0\0\0%s" "$head"
    seq 20000000 | head -c $((3 * matrix + 4096))
} >source/model.safetensors

# room: bytes in use on the mounted file system. XFS frees the space of removed files with a delay.
room() {
    sync -f at
    sleep 0.5
    echo $(($(df --output=used -B1 at | tail -n 1)))
}

# shares PERCENT COMMAND...: COMMAND, which writes at/new from at/old, shares at least PERCENT percent of it.
shares() {
    local percent=$1 before after size
    shift
    rm -rf at/new elsewhere/new
    before=$(room)
    "$@" --json >out.txt 2>err || fail "$* failed"
    after=$(room)
    size=$(du -sb at/new | cut -f 1)
    shared=$(sed 's/.*"bytes_shared":\([0-9]*\).*/\1/' out.txt)
    echo "$kind: ${*##*/}: $((shared * 100 / size)) % of $size bytes shared, room for $((after - before)) taken"
    [ "$shared" -ge $((size * percent / 100)) ] || fail "$*: only $shared of $size bytes are shared"
    shared=$(filefrag -b4096 -v at/new/* at/new/.metadata 2>err | awk '/shared/ { sum += $6 } END { print sum * 4096 }')
    [ "$shared" -ge $((size * percent / 100)) ] || fail "$*: only $shared of $size bytes are in extents that are shared"
    # Metadata of the file system, and blocks at the edges of runs.
    [ $((after - before)) -le $((size - shared + size / 50 + 3000000)) ] || fail "$*: takes $((after - before)) bytes"
}

# same OPTIONS...: the same bytes are written where nothing can be shared.
same() {
    "$tpx" reshard at/old elsewhere/new "$@" --quiet >out.txt 2>err || fail "elsewhere, reshard $* failed"
    diff -r at/new elsewhere/new >out.txt || fail "reshard $*: elsewhere, the output is another one"
    [[ "$*" == *dtype* ]] || "$tpx" verify at/old at/new --quiet >out.txt 2>err || fail "reshard $*: other digests"
    rm -rf elsewhere/new
}

# with_fault KIND: continues resharding; the fifth call that shares blocks fails with KIND (tests/faults/fault.c).
with_fault() {
    LD_PRELOAD=$shim TPX_FAULT_FOLDER=$PWD/at TPX_FAULT_AT="clone 5 *" TPX_FAULT_KIND=$1 \
        "$tpx" reshard at/old at/new --to fsdp=2 --memory 64MiB >out.txt 2>err
}

# next: the output becomes the source.
next() { rm -rf at/old && mv at/new at/old; }

check() {
    cp -r source at/old || fail "no room"
    # A copy, then another format, then several layouts, each from the previous output.
    shares 95 "$tpx" reshard at/old at/new --to tp=1 --format safetensors --verify
    same --to tp=1 --format safetensors
    shares 95 "$tpx" reshard at/old at/new --to fsdp=4 --format dcp --memory 64MiB
    same --to fsdp=4 --format dcp
    next
    shares 95 mpirun -n 2 "$tpx" reshard at/old at/new --to fsdp=1 --verify
    same --to fsdp=1
    shares 95 "$tpx" reshard at/old at/new --to fsdp=8
    same --to fsdp=8
    shares 95 "$tpx" reshard at/old at/new --to tp=1 --format safetensors
    same --to tp=1 --format safetensors
    # Other values, and other orders of elements, are written.
    shares 0 "$tpx" reshard at/old at/new --to fsdp=4 --dtype bf16
    [ "$shared" -eq 0 ] || fail "cast values are shared"
    same --to fsdp=4 --dtype bf16
    shares 0 "$tpx" reshard at/old at/new --to fsdp=4,fsdp_dim=1
    [ "$shared" -eq 0 ] || fail "columns are shared"
    same --to fsdp=4,fsdp_dim=1

    # Where blocks cannot be shared, they are written; a full or broken disk is an error.
    rm -rf at/new
    "$tpx" reshard at/old at/whole --to fsdp=2 --quiet >out.txt 2>err || fail "reshard failed"
    with_fault EACCES || fail "a refused call ends the run"
    diff -r at/new at/whole >out.txt || fail "after a refused call, the output is another one"
    for error in ENOSPC EIO; do
        rm -rf at/new
        with_fault $error && fail "$error is no error"
        grep -q '^tpx: at/new.partial-.*/__[01]_0.distcp.*: [NI]' err || fail "$error: wrong message"
    done
    # A killed run leaves shared blocks; the next run finds them.
    with_fault KILL && fail "the run was not killed"
    "$tpx" reshard at/old at/new --to fsdp=2 --memory 64MiB --verify >out.txt 2>err || fail "a killed run does not continue"
    grep -q '^reused' out.txt || fail "the next run reuses nothing"
    diff -r at/new at/whole >out.txt || fail "a run that was killed ends with another output"

    # Later changes to the source do not change the output.
    for file in at/old/*; do [ -f "$file" ] && dd if=/dev/zero of="$file" bs=1M count=8 seek=1 conv=notrunc 2>err; done
    sync -f at
    diff -r at/new at/whole >out.txt || fail "the output changes with its source"
    rm -rf at/*
}

tested=0
for kind in xfs btrfs; do
    rm -f disk
    truncate -s 1G disk
    if ! command -v "mkfs.$kind" >/dev/null || ! "mkfs.$kind" -q disk >out.txt 2>err || ! mount -o loop disk at 2>err; then
        echo "no $kind here"
        continue
    fi
    check
    umount at
    tested=$((tested + 1))
done
[ "$tested" -gt 0 ] || skip "neither XFS nor btrfs can be made and mounted"
