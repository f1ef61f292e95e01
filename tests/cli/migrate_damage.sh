#!/bin/bash
# migrate_damage.sh TPX TESTDATA: tests tpx migrate --store and tpx inspect --store on stores of emulated hosts with a
# damaged link, record or manifest: no state older than the one to which a host was switched becomes current, and
# --rejoin helps.
set -u
tpx=$1 testdata=$2
# shellcheck source=tests/cli/emulated_stores.sh
. "$(dirname "$0")/emulated_stores.sh"
# shellcheck source=tests/cli/side_by_side.sh
. "$(dirname "$0")/side_by_side.sh"
dcp=$testdata/llama-rope/dcp-fsdp2
# start ARGS...: new stores of two hosts.
start() {
    rm -rf s
    done_with 'epoch 1' 2 2x2 --import "$dcp" --iteration 7 --job j "$@"
}

# newer: k has the stores of two hosts, of which host1 is outdated: only host0 was switched to the newer state.
newer() {
    done_with 'epoch 1' 2 2x2 --import "$dcp" --iteration 7 --job k --replicas 2
    mv s k
    mpirun -n 1 "$tpx" migrate --store 'k/{host}' --emulate --hosts 2x2 --lost host1 --to fsdp=2 >out 2>err || fail "no change"
}
# A link to a missing state, or a folder in place of the link, is replaced.
links() {
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
}
# damaged RECORD: a damaged record blocks every command until its host rejoins; tpx inspect still shows the other hosts.
damaged() {
    local record=$1
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
}
damaged_prepared() { damaged prepared; }
damaged_decision() { damaged decision; }
# host1 comes back outdated, and host0 has lost the newer state: the older one does not become current, and is not pruned.
older_state() {
    newer
    for damage in 'printf x | dd of=s/host0/current/manifest.json bs=1 seek=100 conv=notrunc' 'rm -r s/host0/states/k-7-2' \
        'rm s/host0/current' 'ln -sfn states/k-7-1 s/host0/current' 'rm s/host0/current s/host0/decision'; do
        rm -rf s && cp -a k s && eval "$damage" 2>err || exit
        refused 3 "host 'host0': its store was switched to k-7-2 (epoch 2), but .*k-7-1 (epoch 1) on host 'host.'; .*--rejoin host0" 2 2x2 \
            --to fsdp=2 --prune
    done
    # The link leads to an older state than another one in the store.
    rm -rf s && cp -a k s && ln -sfn states/k-7-1 s/host0/current && rm s/host0/decision || exit
    refused 3 "host 'host0': its store contains the newer state k-7-2 (epoch 2), but its current state is k-7-1; .*--rejoin host0" 2 2x2 --to fsdp=2
    ready 3 2x2 2
}
# All hosts with faults are named, and the suggested --rejoin lists them together with those already given.
several_hosts() {
    done_with 'epoch 1' 4 4x2 --import "$dcp" --iteration 7 --job j --replicas 2
    cp -a s old
    done_with 'epoch 2' 4 4x2 --to fsdp=4
    for host in host1 host3; do rm -r "s/$host" && cp -a "old/$host" "s/$host" || exit; done
    refused 1 "hosts 'host1', 'host3' are outdated: their stores have epoch 1 .*; pass --rejoin host1,host3 to treat their stores as empty" 4 4x2
    refused 1 "host 'host3' is outdated: .*; pass --rejoin host1,host3" 4 4x2 --rejoin host1
    for host in host1 host2; do echo '{' >"s/$host/prepared"; done
    refused 3 "host 'host1': .*prepared: is damaged: .*; host 'host2': .*; pass --rejoin host\[1-2\] to treat their stores as empty" 4 4x2
    rm -rf s && cp -a old s && for host in host0 host1; do sed 's/j-7-1/j-7-2/; s/"epoch":1/"epoch":2/' "s/$host/decision" >d && rm "s/$host/current" && ln -s states/j-7-2 "s/$host/current"; done
    refused 3 "host 'host0': its store was switched to j-7-2 (epoch 2), but .*; host 'host1': .*; restore these stores, or pass --rejoin host\[0-1\]" 4 4x2
}
# tpx inspect reports it, too, and different states of one epoch, missing and shortened files, and hosts that --hosts lacks.
inspected() {
    newer
    cp -a k s && rm s/host0/current s/host0/decision
    ready 3 2x2 2
    grep -q '^not ready: restore the hosts' out || fail "inspect does not say what to do"
    rm -rf s && cp -a k s
    mpirun -n 1 "$tpx" migrate --store 's/{host}' --emulate --hosts 2x2 --lost host0 --import "$dcp" --iteration 6 --to fsdp=1 >out 2>err || fail "no import"
    ready 3 2x2 2
    { grep -q '^host1 .*(another state of the same epoch)' out && grep -q '^not ready: restore' out; } || fail "inspect is silent about split stores"
    start --to fsdp=4
    shard=$(find s/host1/current/ -name '*.distcp' | head -n 1)
    truncate -s 100 "$shard" && ready 3 2x2 1
    grep -q "^host1      j-7-1; .*has 100 bytes, but its manifest records" out || fail "inspect is silent about a shortened file"
    rm "$shard" && ready 3 2x2 1
    "$tpx" inspect --store s/host1 >out 2>err && fail "inspect is silent about a missing file"
    "$tpx" inspect --store s/host0 >out 2>err || fail "a complete store"
}
# host1 has only a file that host0 also has: the host of a store follows from its path or, if that does not help, from
# all files of a host.
host_of_a_store() {
    done_with 'epoch 1' 2 2x2 --import "$dcp" --iteration 7 --job j --to fsdp=2
    for file in s/host0/current/*.distcp; do
        mv "$file" moved
        "$tpx" inspect --store s/host0 >out 2>err && fail "inspect is silent about $file"
        mv moved "$file"
    done
    cp -a s/host0 plain
    "$tpx" inspect --store plain >out 2>err || fail "a complete store in another place"
    rm plain/current/__0_0.distcp
    "$tpx" inspect --store plain >out 2>err && fail "inspect is silent about a missing file of a store in another place"
    grep -q 'its files match no host of its manifest' out || fail "inspect does not say what is wrong"
    touch file && "$tpx" inspect --store file >out 2>err
    { [ $? -eq 1 ] && grep -q 'file: is not a folder' err; } || fail "inspect of a file"
    mkdir -p q/host0 && touch q/host1
    mpirun -n 2 "$tpx" inspect --store 'q/{host}' --hosts 2x2 --emulate >out 2>err
    { [ $? -eq 3 ] && grep -q '^host1 .*q/host1: is not a folder' out; } || fail "inspect of a file in place of a store"
    start --to fsdp=4
    ready 3 1x2 1
    grep -q '^not ready: the state is also on host1, which --hosts lacks' out || fail "inspect is silent about host1"
}
# The host that has lost the newer state rejoins.
rejoins() {
    newer
    cp -a k s && rm s/host0/current
    done_with 'epoch 3' 2 2x2 --to fsdp=2 --rejoin host0
    whole "$dcp" host0 host1
}
# A switch that failed while it was prepared: the same command reuses the written files after comparing their checksums.
interrupted_switch() {
    start --to fsdp=2
    fails_to_prepare() {
        mkdir s/host1/prepared || exit
        migrate 2 2x2 "$@"
        { [ "$status" -eq 1 ] && grep -q 'the new state is kept; run the same command to continue' err; } || fail "status $status instead of 1"
        rmdir s/host1/prepared || exit
    }
    fails_to_prepare --to fsdp=4
    done_with 'staging of host\[0-1\] contains files of an unfinished change' 2 2x2
    ready 0 2x2 2
    grep -q '^host1 .*; in staging: ' out || fail "inspect is silent about staging"
    done_with 'only the switch remained' 2 2x2 --to fsdp=4 --json
    grep -q '"bytes_written":0,"bytes_shared":0,"bytes_kept":[1-9]' out || fail "something was written again"
    whole "$dcp" host0 host1
    fails_to_prepare --to fsdp=2
    done_with 'rolled back' 2 2x2
    printf x | dd of="$(find s/host0/staging -name '*.distcp' | head -n 1)" bs=1 seek=3000 conv=notrunc status=none || exit
    done_with '"bytes_kept":0' 2 2x2 --to fsdp=2 --json
    whole "$dcp" host0 host1
    fails_to_prepare --to fsdp=3
    done_with 'removed files that an unfinished change to another state had left in staging' 2 2x2 --to fsdp=4
    whole "$dcp" host0 host1
    fails_to_prepare --to fsdp=2
    done_with '"bytes_kept":0' 2 2x2 --to fsdp=2 --json --restart
    whole "$dcp" host0 host1
}
# --prune keeps the last state that is intact.
pruned() {
    start --to fsdp=4
    done_with 'epoch 2' 2 2x2 --to fsdp=2
    rm s/host0/current/*.distcp
    refused 3 'no host has an intact copy of' 2 2x2 --prune
    [ -e s/host0/states/j-7-1 ] || fail "the last intact state was pruned"
}
# A run without a change is for launchers: it fails with advice if a host lacks files that its ranks read.
run_for_launchers() {
    done_with 'epoch 1' 2 2x2 --import "$testdata/dcp/virtual-nodes" --iteration 4 --to fsdp=4,vn=4 --replicas 2
    rm "$(find s/host1/current/ -name '*.distcp' | head -n 1)"
    refused 3 "host 'host1': .*: No such file or directory; run tpx migrate --to fsdp=4,vn=4 to restore it from other hosts" 2 2x2
    rm -r s/host1
    refused 3 "host 'host1' does not have the current state; run tpx migrate --to fsdp=4,vn=4 to restore it" 2 2x2
    done_with 'epoch 2' 2 2x2 --to fsdp=4
    done_with 'nothing to do' 2 2x2
    rm -r s/host1
    done_with 'epoch 3' 2 2x2 --to fsdp=2,vn=4 --replicas 1 --pin
    rm -r s/host0
    refused 3 'no host has an intact copy of' 2 2x2
}
side_by_side 3 interrupted_switch links older_state damaged_prepared damaged_decision inspected several_hosts run_for_launchers pruned host_of_a_store rejoins
echo ok
