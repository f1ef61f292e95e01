#!/bin/sh
# stall.sh TPX: a job ends after --patience if ranks are stopped at any moment or a file system blocks, and the message
# names them. The file system needs root and a loop device; without them, the test only stops ranks.
set -u
tpx=$1
# shellcheck source=scripts/mpi-env.sh
. "$(dirname "$0")/../../scripts/mpi-env.sh"
patience=2
scratch=$(mktemp -d)
cleanup() {
    [ -z "${frozen-}" ] || fsfreeze --unfreeze "$frozen"
    pkill -KILL -f "^$tpx reshard $scratch" 2>/dev/null
    ! mountpoint -q "$scratch/disk" || umount "$scratch/disk"
    rm -rf "$scratch"
}
trap cleanup EXIT
trap 'exit 130' INT TERM
fail() {
    echo "stall: $*" >&2
    cat "$scratch/err" >&2
    exit 1
}

# 200 MB of zeros under names of a Hugging Face folder.
head='{"w":{"dtype":"F32","shape":[50000,1000],"data_offsets":[0,200000000]}}'
mkdir "$scratch/hf"
{
    printf "\\$(printf '%03o' ${#head})\0\0\0\0\0\0\0%s" "$head"
    head -c 200000000 /dev/zero
} >"$scratch/hf/model.safetensors"

# ends PID: whether the job ends within its patience plus a few seconds.
ends() {
    for _ in $(seq $((10 * (patience + 28)))); do
        kill -0 "$1" 2>/dev/null || return 0
        sleep 0.1
    done
    return 1
}

# ended_by PATTERN PID: the job must fail in time with a message that matches PATTERN.
ended_by() {
    ends "$2" || fail "the job goes on: $1"
    wait "$2"
    code=$?
    [ $code -eq 1 ] || fail "exit status $code instead of 1: $1"
    grep -q "^tpx: .*$1.*(--patience)" "$scratch/err" || fail "no message with '$1'"
}

# begun: waits until a rank has opened the checkpoint, and prints the last one.
begun() {
    for _ in $(seq 500); do
        for rank in $(pgrep -f "^$tpx reshard $scratch" | sort -rn); do
            case $(ls -l "/proc/$rank/fd" 2>/dev/null) in
            *model.safetensors* | *out.partial*) echo "$rank"; return ;;
            esac
        done
        sleep 0.01
    done
}

for delay in 0 0.02 0.1 0.2; do
    rm -rf "$scratch"/out*
    mpirun -n 3 "$tpx" reshard "$scratch/hf" "$scratch/out" --to fsdp=64 --format dcp --patience $patience \
        --memory 64MiB --threads 1 >"$scratch/said" 2>"$scratch/err" &
    job=$!
    rank=$(begun)
    sleep $delay
    if ! kill -STOP "$rank" 2>/dev/null; then
        wait $job || fail "the job fails undisturbed"
        continue
    fi
    if ! ends $job; then
        [ -e "$scratch/out" ] || fail "the job goes on after $delay s"
        kill -CONT "$rank"  # the others have ended, and mpirun waits
        wait $job || fail "the job fails after its end"
        continue
    fi
    wait $job
    code=$?
    case $code in
    0) [ -e "$scratch/out" ] || fail "exit status 0 without an output" ;;
    1) [ ! -e "$scratch/out" ] || fail "an output with exit status 1" ;;
    4) grep -q "(--patience); if $scratch/out exists, it is complete" "$scratch/err" || fail "nothing about the output" ;;
    *) fail "exit status $code after $delay s" ;;
    esac
    [ $code -ne 0 ] || continue
    if grep -Eq "^tpx: .*rank [0-2] on host .* has not answered for $patience s" "$scratch/err"; then
        named=1
    else  # the job was almost done, or on a busy disk a rank first found its own work stalled
        grep -Eq "^tpx: .*(a rank has not ended|no progress) for [0-9]* s" "$scratch/err" ||
            fail "no message about the stopped rank"
    fi
done
[ -n "${named-}" ] || fail "no stopped rank was named"

[ "$(id -u)" -eq 0 ] && command -v mkfs.ext4 fsfreeze >/dev/null || exit 0
truncate -s 600M "$scratch/image"
mkfs.ext4 -q "$scratch/image"
mkdir "$scratch/disk"
mount -o loop "$scratch/image" "$scratch/disk" 2>/dev/null || exit 0
frozen=$scratch/disk
fsfreeze --freeze "$frozen"
: >"$scratch/err" # remove messages of earlier jobs before the wait below reads the file
"$tpx" reshard "$scratch/hf" "$scratch/disk/out" --to fsdp=4 --format dcp --patience $patience >"$scratch/said" 2>"$scratch/err" &
job=$!
# The job cannot end before the disk continues; on a busy machine, it may take long to get there.
until=$(($(date +%s) + 60))
until grep -q "(--patience)" "$scratch/err" || [ "$(date +%s)" -gt $until ]; do sleep 0.1; done
fsfreeze --unfreeze "$frozen"
frozen=
ended_by "no progress for [0-9]* s: [a-z]* $scratch/disk" $job
"$tpx" reshard "$scratch/hf" "$scratch/disk/out" --to fsdp=4 --format dcp --quiet 2>"$scratch/err" || fail "it cannot be done anew"
