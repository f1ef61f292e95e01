#!/bin/bash
# migrate_damage.sh TPX TESTDATA: tests tpx migrate --store and tpx inspect --store on stores of emulated hosts whose link,
# records or manifest are damaged: nothing older than what a host was switched to becomes current, and --rejoin helps.
set -u
tpx=$1 testdata=$2
# shellcheck source=tests/cli/emulated_stores.sh
. "$(dirname "$0")/emulated_stores.sh"
dcp=$testdata/llama-rope/dcp-fsdp2
# start ARGS...: new stores of two hosts.
start() {
    rm -rf s
    done_with 'epoch 1' 2 2x2 --import "$dcp" --iteration 7 --job j "$@"
}

# A link to a missing state, or a folder in place of the link, is replaced.
start
for damage in 'rm -r s/host1/states/j-7-1' 'rm s/host1/current && mkdir s/host1/current && touch s/host1/current/mine'; do
    eval "$damage" || exit
    done_with "host 'host1': its current state is not used" 2 2x2 --import "$dcp" --iteration 7 --to fsdp=2 --rejoin host1
    [ -L s/host1/current ] || fail "no current state: $damage"
    rm -rf "$(readlink -f s/host1/current)" || exit
    done_with "host 'host1': its current state is not used" 2 2x2 --import "$dcp" --iteration 7 --to fsdp=4
    ready 0 2x2 2
done
[ -e s/host1/staging/replaced-current-1/mine ] || fail "a folder in place of the link is lost"

# A damaged record blocks every command until its host rejoins; tpx inspect still shows the other hosts.
for record in prepared decision; do
    start --to fsdp=4
    echo '{' >"s/host1/$record"
    refused 3 "host 'host1': .*/$record: is damaged: not a JSON object; pass --rejoin host1" 2 2x2 --to fsdp=2
    ready 3 2x2 2
    { grep -q '^host0      j-7-1$' out && grep -q "^host1 .*/$record: is damaged" out; } || fail "inspect does not show both hosts"
    done_with '' 2 2x2 --rejoin host1
    ready 0 2x2 2
    echo '{' >"s/host1/$record"
    done_with 'sent' 2 2x2 --rejoin host1 --to fsdp=2 --import "$dcp" --iteration 7
    ready 0 2x2 2
done

# host1 comes back outdated, and host0 has lost the newer state: the older one does not become current, and is not pruned.
rm -rf s
done_with 'epoch 1' 2 2x2 --import "$dcp" --iteration 7 --job k --replicas 2
mv s k
mpirun -n 1 "$tpx" migrate --store 'k/{host}' --emulate --hosts 2x2 --lost host1 --to fsdp=2 >out 2>err || fail "no change"
for damage in 'printf x | dd of=s/host0/current/manifest.json bs=1 seek=100 conv=notrunc' 'rm -r s/host0/states/k-7-2' \
    'rm s/host0/current' 'ln -sfn states/k-7-1 s/host0/current' 'rm s/host0/current s/host0/decision'; do
    rm -rf s && cp -a k s && eval "$damage" 2>err || exit
    refused 3 "host 'host0': its store was switched to k-7-2 (epoch 2), but .*k-7-1 (epoch 1) on host 'host.'; .*--rejoin host0" 2 2x2 \
        --to fsdp=2 --prune
done
# tpx inspect reports it, too, and different states of one epoch, missing and shortened files, and hosts that --hosts lacks.
ready 3 2x2 2
grep -q '^not ready: restore the hosts' out || fail "inspect does not say what to do"
rm -rf s && cp -a k s
mpirun -n 1 "$tpx" migrate --store 's/{host}' --emulate --hosts 2x2 --lost host0 --import "$dcp" --iteration 6 --to fsdp=1 >out 2>err || fail "no import"
ready 3 2x2 2
{ grep -q '^host1 .*(another state of the same epoch)' out && grep -q '^not ready: restore' out; } || fail "inspect is silent about split stores"
start --to fsdp=4
shard=$(find s/host1/current/ -name '*.distcp' | head -n 1)
truncate -s 100 "$shard" && ready 3 2x2 1
grep -q "^host1      j-7-1; .*has 100 bytes, its manifest says" out || fail "inspect is silent about a shortened file"
rm "$shard" && ready 3 2x2 1
"$tpx" inspect --store s/host1 >out 2>err && fail "inspect is silent about a missing file"
"$tpx" inspect --store s/host0 >out 2>err || fail "a complete store"
ready 3 1x2 1
grep -q '^not ready: the state is also on host1, which --hosts lacks' out || fail "inspect is silent about host1"

rm -rf s && cp -a k s && rm s/host0/current
done_with 'epoch 3' 2 2x2 --to fsdp=2 --rejoin host0
whole "$dcp" host0 host1
echo ok
