#!/bin/bash
# no_direct.sh TPX REFUSE_DIRECT: on a file system without direct I/O, tpx reshard and migrate print a single note and
# write the same bytes as elsewhere. Small files never use direct I/O, and cause no note.
set -u
tpx=$1 refuse=$2
# shellcheck source=scripts/mpi-env.sh
. "$(dirname "$0")/../../scripts/mpi-env.sh"
unset OMPI_COMM_WORLD_RANK PMIX_RANK PMI_RANK SLURM_PROCID SLURM_JOB_ID
scratch=$(mktemp -d) && trap 'rm -rf "$scratch"' EXIT
fail() {
    echo "no_direct: $*" >&2
    cat "$scratch/err" >&2
    exit 1
}
cd "$scratch" || exit

# tensor FILE ROWS: a file of one tensor with rows of 4 kB.
tensor() {
    local size=$(($2 * 4000)) head
    head="{\"w\":{\"dtype\":\"F32\",\"shape\":[$2,1000],\"data_offsets\":[0,$size]}}"
    {
        printf "\\$(printf '%03o' ${#head})\0\0\0\0\0\0\0%s" "$head"
        seq 10000000 | head -c $size
    } >"$1"
}
mkdir hf small stores
tensor hf/model.safetensors 5000
tensor small/model.safetensors 10

note="the file system does not support direct I/O (O_DIRECT); data was written through the page cache, which can take longer"
# said COMMAND...: how often COMMAND, which must succeed, prints the note.
said() {
    rm -rf out
    "$@" >out.txt 2>err || fail "$* fails"
    grep -c "^tpx: note: out[^ ]*: $note\$" err
}
"$tpx" reshard hf expected --to fsdp=2 --format dcp >out.txt 2>err || fail "without faults"
for what in open write; do
    for ranks in 1 3; do
        count=$(said mpirun -n $ranks -x LD_PRELOAD="$refuse" -x REFUSE_DIRECT=$what "$tpx" reshard hf out --to fsdp=2 --format dcp)
        [ "$count" -eq 1 ] || fail "$what, $ranks ranks: said $count times"
        diff -r expected out || fail "$what, $ranks ranks: other bytes"
    done
done
export REFUSE_DIRECT=open
LD_PRELOAD=$refuse said "$tpx" reshard hf out --to tp=1 --json >/dev/null
grep -qF "\"out: $note\"" out.txt || fail "not in JSON"
count=$(LD_PRELOAD=$refuse said "$tpx" reshard small out --to tp=1)
[ "$count" -eq 0 ] || fail "said of a small checkpoint"
if dd if=/dev/zero of=probe bs=4096 count=1 oflag=direct 2>/dev/null; then
    count=$(said "$tpx" reshard hf out --to tp=1)
    [ "$count" -eq 0 ] || fail "said where direct I/O works"
fi

"$tpx" verify --write hf >out.txt 2>err || fail "verify --write"
cp -R hf stores/host0
printf 'host0 slots=1\n' >hosts
count=$(LD_PRELOAD=$refuse said "$tpx" migrate 'stores/{host}' 'out/{host}' --hosts hosts --emulate --to tp=1)
[ "$count" -eq 1 ] || fail "migrate: said $count times"
