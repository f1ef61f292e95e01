#!/bin/bash
# migrate_hold.sh TPX TESTDATA: tpx migrate --hold on emulated hosts leaves the state of each host's ranks in memory, from folders and
# from managed stores, where each host has only the files of its ranks.
set -u
tpx=$1 testdata=$2
# shellcheck source=tests/cli/emulated_stores.sh
. "$(dirname "$0")/emulated_stores.sh"
# Only this test uses this folder for the sockets of keepers.
export XDG_RUNTIME_DIR=$scratch/run
# Other tests kill processes, which then leave their folders of links in the usual place.
export TMPDIR=$scratch/tmp
mkdir -m 700 "$XDG_RUNTIME_DIR" "$TMPDIR" || exit 1
release() {
    local host
    for host in host0 host1; do "$tpx" hold --release "state-$host" >/dev/null 2>&1; done
}
trap 'release; rm -rf "$scratch"' EXIT

dcp=$testdata/llama-rope/dcp-fsdp2 megatron=$testdata/llama-small/megatron-tp2pp2
named=(--hold 100 --hold-name 'state-{host}')
# held HOST RANK...: the keeper of HOST has exactly these ranks.
held() {
    "$tpx" hold --list >listed 2>err || fail "cannot list keepers"
    awk -v name="hold:state-$1" '$1 ~ /^hold:/ { own = $1 == name } own && $1 == "rank" { printf "%d ", $2 }' listed >ranks
    [ "$(cat ranks)" = "${*:2}${2:+ }" ] || fail "$1 holds '$(cat ranks)' instead of ${*:2}"
}

# Both hosts have whole models, and hold them.
done_with 'epoch 1' 2 2x2 --import "$dcp" --iteration 3 --to tp=2,dp=2 "${named[@]}"
grep -q 'note: the state of each host.s ranks is also held in memory, as hold:state-{host}' err || fail "no note"
held host0 0 1
held host1 2 3
for host in host0 host1; do "$tpx" verify "hold:state-$host" "$dcp" >out 2>err || fail "$host holds another state"; done

# A name that is in use is refused before anything is moved.
refused 1 'hold:state-host0: state is held under this name already' 2 2x2 --to tp=4 "${named[@]}"
release

# Each host has half of each tensor, and only the files that contain it. A current state can be held, too.
done_with 'epoch 2' 2 2x2 --to tp=4 --replicas 1
[ "$(find s/host0/current/ -name '*.distcp' | wc -l)" -lt "$(find s/*/current/ -name '*.distcp' -printf '%f\n' | sort -u | wc -l)" ] ||
    fail "host0 has all files"
done_with 'nothing to do' 2 2x2 "${named[@]}"
held host0 0 1
held host1 2 3
release
"$tpx" hold s/host0/current --to tp=4 --ranks 0,2 --name state-host0 >out 2>err && fail "holds rank 2 of another host"
grep -q "^tpx: .*distcp: No such file or directory$" err || fail "does not name the missing file"
done_with 'nothing was written' 2 2x2 --to tp=2 --dry-run "${named[@]}"
[ "$("$tpx" hold --list)" = "nothing is held" ] || fail "--dry-run holds"

# A host without ranks holds nothing.
done_with 'epoch 3' 2 2x2 --to tp=2 --pin "${named[@]}"
held host0 0 1
held host1
release

# Megatron's checkpoints, from and to folders.
mkdir from && cp -r "$megatron" from/host0 && cp -r "$megatron" from/host1 || exit 1
mpirun -n 2 "$tpx" migrate 'from/{host}' 'to/{host}' --emulate --hosts 2x2 --to tp=4 "${named[@]}" >out 2>err || fail "folders"
held host0 0 1
held host1 2 3
release

# State held by the keepers of several hosts can be a source for folders and for managed stores. A host without a keeper
# has no state.
vn=$testdata/dcp/virtual-nodes
rm -r s
done_with 'epoch 1' 2 2x1 --import "$vn" --iteration 5 --to fsdp=2,vn=4 "${named[@]}"
mpirun -n 3 "$tpx" migrate 'hold:state-{host}' 'memory/{host}' --emulate --hosts 3x1 --to fsdp=3,vn=4 >out 2>err || fail "not from memory"
grep -q 'sent 1.18 kB between hosts' out || fail "sends more than it must: $(cat out)"
merge() {
    rm -rf merged && mkdir merged
    for host in "$@"; do cp -RL "$host/." merged || exit; done
    "$tpx" verify "$vn" merged >verified 2>&1 || { cat verified >&2; fail "another state comes from memory"; }
}
merge memory/host0 memory/host1 memory/host2
rm -r s
done_with 'epoch 1' 3 3x1 --import 'hold:state-{host}' --iteration 5 --to fsdp=1,vn=4
whole "$vn" host0 host1 host2
"$tpx" hold --release state-host1 >/dev/null
rm -r s
migrate 3 3x1 --import 'hold:state-{host}' --iteration 5 --to fsdp=1,vn=4
grep -q "hold:state-{host}: tensor 'model.tok_embeddings.weight': no file contains \[7:14, 0:8\]" err || fail "a keeper that ended is not noticed"
release
migrate 3 3x1 --import 'hold:state-{host}' --iteration 5 --to fsdp=1,vn=4
{ [ "$status" -eq 1 ] && grep -q 'no store of 3 hosts has any file' err; } || fail "no keeper is not noticed"
[ -z "$(find "${TMPDIR:-/tmp}" -maxdepth 1 -name 'tpx-held-*' -user "$(id -u)" -mmin -1 2>/dev/null)" ] || fail "folders of links are left"

# The state of a killed keeper is lost, which does no harm if other keepers have all of it. kill_keeper N: kills the
# keeper of the N-th of two held states.
kill_keeper() {
    local process
    process=$("$tpx" hold --list --json | grep -o '"process":[0-9]*' | sed -n "$(($1 + 1))s/.*://p")
    kill -KILL "$process" || exit
    while kill -0 "$process" 2>/dev/null; do sleep 0.05; done
    if "$tpx" verify "hold:state-host$1" "$vn" >out 2>err; then fail "the keeper was not killed"; fi
}
for rank in 0 1; do
    "$tpx" hold "$dcp" --to dp=2 --ranks $rank --name "state-host$rank" >out 2>err || fail "rank $rank is not held"
done
kill_keeper 0
mpirun -n 2 "$tpx" migrate 'hold:state-{host}' 'rest/{host}' --emulate --hosts 2x1 --to dp=2 >out 2>err
status=$?
[ "$status" -eq 0 ] || fail "a killed keeper whose state another one holds too: status $status"
"$tpx" verify rest/host0 "$dcp" >out 2>err || fail "another state comes from the keeper that is left"
release
"$tpx" hold "$vn" --to fsdp=2,vn=4 --ranks 0 --name state-host0 >out 2>err || fail "not held"
"$tpx" hold "$vn" --to fsdp=2,vn=4 --ranks 1 --name state-host1 >out 2>err || fail "not held"
kill_keeper 1
mpirun -n 2 "$tpx" migrate 'hold:state-{host}' 'half/{host}' --emulate --hosts 2x1 --to fsdp=1,vn=4 >out 2>err
{ [ $? -eq 1 ] && grep -q "no file contains .*; the keeper of host1 was killed" err; } || fail "a killed keeper with pieces is not named: $(cat err)"
release

# Parts of different checkpoints are refused, although names, shapes and layout are the same.
cp -r "$vn" copy && sed -i 's/stream of virtual/STREAM of virtual/' copy/*.distcp || exit 1
save=$(grep -ao '[0-9a-f]\{8\}-[0-9a-f]\{4\}-[0-9a-f]\{4\}-[0-9a-f]\{4\}-[0-9a-f]\{12\}' "$vn/.metadata" | head -n 1)
sed -i "s/${save:-none}/00000000-0000-4000-8000-000000000000/" copy/.metadata || exit 1
"$tpx" reshard copy other --to fsdp=2 >out 2>err || fail "not resharded"
"$tpx" hold "$vn" --to fsdp=2,vn=4 --ranks 0 --name state-host0 >out 2>err || fail "not held"
"$tpx" hold other --to fsdp=2,vn=4 --ranks 1 --name state-host1 >out 2>err || fail "not held"
mpirun -n 2 "$tpx" migrate 'hold:state-{host}' 'mixed/{host}' --emulate --hosts 2x1 --to fsdp=2,vn=4 >out 2>err
{ [ $? -eq 1 ] && grep -q 'may be parts of different checkpoints' err; } || fail "two checkpoints are mixed: $(cat err)"
release
# So are a checkpoint and a copy whose values were rounded.
"$tpx" reshard "$vn" rounded --to fsdp=2 --dtype bf16 >out 2>err || fail "not cast"
"$tpx" reshard rounded again --to fsdp=2 --dtype f32 >out 2>err || fail "not cast back"
"$tpx" hold "$vn" --to fsdp=2,vn=4 --ranks 0 --name state-host0 >out 2>err || fail "not held"
"$tpx" hold again --to fsdp=2,vn=4 --ranks 1 --name state-host1 >out 2>err || fail "not held"
mpirun -n 2 "$tpx" migrate 'hold:state-{host}' 'mixed/{host}' --emulate --hosts 2x1 --to fsdp=2,vn=4 >out 2>err
{ [ $? -eq 1 ] && grep -q 'may be parts of different checkpoints' err; } || fail "rounded values are mixed in: $(cat err)"
release

for wrong in "--hold 0" "--hold x" "--hold-name x" "--hold 9 --hold-name a/b" "--hold 9 --export out"; do
    # shellcheck disable=SC2086 # words
    migrate 2 2x2 $wrong
    [ "$status" -eq 2 ] || fail "$wrong: status $status"
done
