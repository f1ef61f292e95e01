#!/bin/bash
# passes.sh TPX: measures the bytes that commands and their children read, with /proc/PID/io. A checkpoint with recorded
# digests is read only once, by one process or by two ranks, and changes since the recording are still found.
set -u
tpx=$1
# shellcheck source=scripts/mpi-env.sh
. "$(dirname "$0")/../../scripts/mpi-env.sh"
unset OMPI_COMM_WORLD_RANK PMIX_RANK PMI_RANK SLURM_PROCID SLURM_JOB_ID
scratch=$(mktemp -d) && trap 'rm -rf "$scratch"' EXIT
fail() {
    echo "passes: $*" >&2
    cat "$scratch/err" >&2
    exit 1
}
[ -r /proc/self/io ] || { echo "skipped: no /proc/self/io here"; exit 77; }
cd "$scratch" || exit

# 40 MB of weights and 40 MB of optimizer state.
tensor() { printf '"%s":{"dtype":"F32","shape":[2500,1000],"data_offsets":[%d,%d]}' "$1" "$(($2 * 10000000))" "$((($2 + 1) * 10000000))"; }
head="{$(for k in 0 1 2 3; do tensor "model.w$k.weight" "$k"; printf ,; done; for k in 0 1 2 3; do tensor "optimizer.state.w$k.exp_avg" $((k + 4)); [ "$k" -eq 3 ] || printf ,; done)}"
mkdir hf
{
    printf "\\$(printf '%03o' $((${#head} % 256)))\\$(printf '%03o' $((${#head} / 256)))\0\0\0\0\0\0%s" "$head"
    seq 20000000 | head -c 80000000
} >hf/model.safetensors
size=$(stat -c %s hf/model.safetensors)

# reads PERCENT COMMAND...: COMMAND succeeds and reads at most PERCENT of the checkpoint, plus 8 MB for starting it.
reads() {
    local most=$1 bytes
    shift
    # shellcheck disable=SC2016 # of the shell that is started
    bytes=$(bash -c '"$@" >out.txt 2>err || exit; sed -n "s/rchar: //p" /proc/$$/io' bash "$@") || fail "$* failed"
    [ "$bytes" -le $((size * most / 100 + 8000000)) ] || fail "$*: $bytes bytes read of $size"
    [ "$bytes" -ge $((size * 95 / 100)) ] || fail "$*: only $bytes bytes read of $size"
}

reads 101 "$tpx" verify --write hf
reads 101 "$tpx" verify hf
reads 101 "$tpx" reshard hf one --to tp=1 --format dcp
reads 101 mpirun -n 2 "$tpx" reshard hf two --to fsdp=4 --format dcp
# With little memory, tiles are small, and rows of pieces are read with gaps.
reads 101 "$tpx" reshard hf small --to fsdp=4 --format dcp --memory 64MiB
# The output is read back to verify it; digests of the source are computed from the moved bytes.
reads 202 "$tpx" reshard hf verified --to fsdp=4 --format dcp --verify
reads 202 mpirun -n 2 "$tpx" reshard hf verified-2 --to tp=1 --dtype f32 --verify
# Dropped tensors are read for their digests only.
reads 101 "$tpx" reshard hf weights --to tp=1 --drop optimizer
for out in one two; do "$tpx" verify hf $out >out.txt 2>err || fail "the output differs"; done

# A changed byte is found in tensors that are moved and in those that are dropped.
for at in 30000000 70000000; do
    cp hf/model.safetensors saved
    printf '\377' | dd of=hf/model.safetensors bs=1 seek=$at conv=notrunc 2>err
    for ranks in 1 2; do
        mpirun -n $ranks "$tpx" reshard hf new --to tp=1 --drop optimizer >out.txt 2>err && fail "damage was carried over"
        grep -q "^tpx: hf: tensor '.*' (.*): digest .* instead of .* (2 differences from tpx.digests.json)" err || fail "wrong message"
        [ -z "$(find . -maxdepth 1 -name 'new*')" ] || fail "something is left of the output"
    done
    "$tpx" verify hf >out.txt 2>err && fail "verify finds nothing"
    mv saved hf/model.safetensors
done
"$tpx" verify hf >out.txt 2>err || fail "the checkpoint has changed"
