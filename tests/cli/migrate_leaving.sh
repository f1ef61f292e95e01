#!/bin/bash
# migrate_leaving.sh TPX TESTDATA: tests tpx migrate --leaving HOSTS --within TIME on emulated hosts: state that only
# leaving hosts have is saved first, so that these hosts are no longer needed, and the plan shows in advance whether the
# time is sufficient.
set -u
tpx=$1 testdata=$2
# shellcheck source=tests/cli/emulated_stores.sh
. "$(dirname "$0")/emulated_stores.sh"
# shellcheck source=tests/cli/side_by_side.sh
. "$(dirname "$0")/side_by_side.sh"

dcp=$testdata/llama-rope/dcp-fsdp2 megatron=$testdata/llama-small/megatron-tp2pp2
# start CKPT ITERATION ARGS...: new stores of four hosts with the state of CKPT.
start() {
    rm -rf s
    done_with 'epoch 1' 4 4x2 --import "$1" --iteration "$2" "${@:3}"
}
# states HOST: the number of states in the store of HOST.
states() { find "s/$1/states" -mindepth 1 -maxdepth 1 | wc -l; }
# sums: the bytes between hosts, the bytes that each host sends and receives, and the messages of the last run, as JSON.
sums() { grep -o '"bytes_between_hosts":[0-9]*\|"sends":[0-9]*,"receives":[0-9]*\|"messages":[0-9]*' out | sort | tr '\n' ' '; }
# fits_in CKPT EPOCH HOST...: the states of EPOCH on these hosts together equal CKPT.
fits_in() {
    local host
    rm -rf merged && mkdir merged || exit
    for host in "${@:3}"; do cp -R "s/$host/states/"*"-$2/." merged/ || fail "$host has no state of epoch $2"; done
    rm merged/manifest.json
    "$tpx" verify "$1" merged >verified 2>&1 || { cat verified >&2; fail "epoch $2 on ${*:3} is not $1"; }
}
# saved CKPT ITERATION LAYOUT OTHER: state that only a leaving host has is saved first.
saved() {
    local ckpt=$1 iteration=$2 first=$3 second=$4
    start "$ckpt" "$iteration" --to "$first"
    cp -a s earlier
    done_with 'can be saved in time: saving takes .* are left; assumed rates: ' 4 4x2 --leaving host0 --within 90s --to "$second" --json
    grep -q '"in_time":true,"assumed_rates":\["' out || fail "no plan for the leaving hosts in the JSON"
    whole "$ckpt" host1 host2 host3
    # The state that was saved first needs no leaving host.
    [ "$(states host1)" -eq 3 ] || fail "nothing was saved before the change"
    fits_in "$ckpt" 2 host1 host2 host3
    [ "$(states host0)" -eq 1 ] || fail "a leaving host got a state"
    done_with 'nothing to do' 4 4x2 --leaving host0 --within 90s --to "$second"
    # The leaving host disappears after the state was saved.
    for host in host1 host2 host3; do
        rm -rf "s/$host/states/"*-3 && ln -sfn "states/$(basename "s/$host/states/"*-2)" "s/$host/current" && rm "s/$host/decision" || exit
    done
    rm -rf s/host0
    done_with 'epoch [34]' 3 4x2 --lost host0 --to "$second"
    whole "$ckpt" host1 host2 host3
    # Without this step, the state would be lost with the host.
    rm -rf s && mv earlier s && rm -rf s/host0
    refused 3 'no host has an intact copy' 3 4x2 --lost host0 --to "$second"
}
saved_dcp() { saved "$dcp" 7 fsdp=8 fsdp=4; }
saved_megatron() { saved "$megatron" 10 pp=4 tp=2,pp=2; }
# Leaving hosts must send only state that no other host has.
sent_by_leaving() {
    start "$dcp" 7 --to fsdp=8
    bytes=$(cat s/host2/current/*.distcp s/host3/current/*.distcp | wc -c)
    done_with "\"files\":4,\"bytes\":$bytes," 4 4x2 --leaving 'host[2-3]' --within 2min --to fsdp=4 --json --dry-run
    start "$dcp" 7 --to fsdp=8 --replicas 2
    done_with 'leaving hosts have no file that other hosts lack' 4 4x2 --leaving host3 --within 90 --to fsdp=4 --replicas 2
    [ "$(states host0)" -eq 2 ] || fail "something was saved although nothing had to be"
    whole "$dcp" host0 host1 host2
}
# The bytes sent and read are the sum of both switches, in a dry run and in the run, and on each host.
planned_bytes() {
    start "$dcp" 7 --to fsdp=8
    done_with '"save_seconds":[0-9.e-]*[1-9]' 4 4x2 --leaving host0 --within 90s --to fsdp=4 --json --dry-run
    planned=$(sums)
    done_with '"written":true' 4 4x2 --leaving host0 --within 90s --to fsdp=4 --json
    [ "$(sums)" = "$planned" ] || fail "the run sends $(sums), but plans $planned"
    saved=$(grep -o '"leaving":{.*' out | grep -o '"bytes_between_hosts":[0-9]*' | cut -d: -f2)
    grep -q "{\"name\":\"host0\",\"ranks\":\[\],\"files\":0,\"bytes\":0,\"sends\":$saved," out || fail "host0 does not send $saved bytes"
}
# A run that ends after the save: the same command still makes as many replicas as before.
ended_after_save() {
    start "$dcp" 7 --to fsdp=8 --replicas 2
    done_with 'saved: ' 4 4x2 --leaving host0,host2 --within 90s --to fsdp=4
    for host in host1 host3; do
        rm -rf "s/$host/states/"*-3 && ln -sfn "states/$(basename "s/$host/states/"*-2)" "s/$host/current" && rm "s/$host/decision" || exit
    done
    rm s/host0/decision s/host2/decision
    done_with '"replicas":2' 4 4x2 --leaving host0,host2 --within 90s --to fsdp=4 --json
}
# rates NAME NIC DISK: a file of hosts with rates.
rates() { printf '[[hosts]]\nname = "host[0-3]"\ngpus = 2\n%s\n%s\n' "$2" "$3" >"$1"; }
# The time that saving takes is compared with --within.
in_time() {
    rates slow.toml 'nic = "1 kB/s"' 'disk_read = "1 GB/s"
disk_write = "1 GB/s"'
    rates fast.toml 'nic = "1 GB/s"' 'disk_read = "1 GB/s"
disk_write = "1 GB/s"'
    rates assumed.toml 'nic = "1 kB/s"' ''
    start "$dcp" 7 --to fsdp=8
    refused 3 'cannot be saved in time: saving takes .* are left; pass --fallback CKPT with a checkpoint of iteration 7' 4 slow.toml \
        --leaving host3 --within 20s --to fsdp=4
    refused 3 'cannot be saved in time' 4 4x2 --hardware slow.toml --leaving host3 --within 20s --to fsdp=4 --json
    grep -q '"written":false,"leaving":{.*"in_time":false,"assumed_rates":\[\]}' out || fail "no plan in the JSON of a run that was refused"
    [ "$(wc -l <out)" -eq 1 ] || fail "more than one JSON document"
    done_with "no usable copy of 30 tensors in the stores: all state is read from $dcp" 4 slow.toml --leaving host3 --within 20s --to fsdp=4 --fallback "$dcp" --iteration 7
    whole "$dcp" host0 host1 host2
    start "$dcp" 7 --to fsdp=8
    done_with 'cannot be saved in time: .*; assumed rates: disk read, disk write' 4 assumed.toml --leaving host3 --within 20s --to fsdp=4
    whole "$dcp" host0 host1 host2
    start "$dcp" 7 --to fsdp=8
    done_with 'can be saved in time: saving takes [0-9.]* [mu]*s, [0-9.]* s are left$' 4 fast.toml --leaving host3 --within 20s --to auto
    whole "$dcp" host0 host1 host2
}
invalid_requests() {
    start "$dcp" 7 --to fsdp=8
    for bad in 0 -1s soon 5x 1e999 nan; do
        refused 2 "within: '$bad' is not a time such as 90s" 4 4x2 --leaving host3 --within "$bad" --to fsdp=4
    done
    refused 2 'within requires --leaving' 4 4x2 --within 90s --to fsdp=4
    refused 2 'within excludes --import and --export' 4 4x2 --leaving host3 --within 90s --export exported
    mpirun -n 1 "$tpx" migrate a b --hosts 1x1 --to tp=1 --leaving host0 --within 5s >out 2>err
    { [ $? -eq 2 ] && grep -q -- '--within: requires --store' err; } || fail "--within without --store"
}
# A run that is stopped in the second switch, after the save: the same command continues what it has written.
stopped() {
    done_with 'epoch 1' 4 4x2 --import "$megatron"
    done_with 'saved: ' 4 4x2 --to tp=2,dp=2 --leaving host0 --within 10min --replicas 2 --json
    for host in host1 host2 host3; do
        mkdir -p "s/$host/staging" && mv "s/$host/states/"*-3 "s/$host/staging/$(grep -o '"change":"[0-9a-f]*"' "s/$host/decision" | cut -d'"' -f4)" || exit
        ln -sfn "states/$(basename "s/$host/states/"*-2)" "s/$host/current" && rm "s/$host/decision" || exit
    done
    rm -f s/host0/decision
    mkdir "s/host1/staging/$(ls s/host1/staging).partial-0123456789abcdef" || exit
    cp -a s killed
    done_with 'only the switch remained' 4 4x2 --to tp=2,dp=2 --leaving host0 --within 10min --replicas 2
    whole "$megatron" host1 host2 host3
    rm -rf s && mv killed s && printf x | dd of="$(find s/host1/staging -name '__*.distcp' | head -n 1)" bs=1 seek=3000 conv=notrunc status=none || exit
    done_with 'removed files that an unfinished run of this change had left in staging' 4 4x2 --to tp=2,dp=2 --leaving host0 --within 10min --replicas 2
    whole "$megatron" host1 host2 host3
}
# With --prune, files that the change after the save reads are kept until then.
pruned() {
    done_with '' 4 4x2 --import "$testdata/llama-small/megatron-tp2pp2"
    done_with '' 4 4x2 --to pp=4 --leaving host0 --within 10min --replicas 2 --prune
}
# Hosts that have left the job record that: without the others, their older state does not count as the newest.
left() {
    printf '[[hosts]]\nname = "%s"\ngpus = 2\n' a b c >left.toml
    done_with 'iteration 10, epoch 1' 3 left.toml --import "$testdata/dcp/virtual-nodes" --iteration 10 --to fsdp=2,vn=4 --job J
    done_with 'iteration 20, epoch 2' 3 left.toml --import "$testdata/dcp/virtual-nodes" --iteration 20 --to fsdp=2,vn=4 --leaving a,b
    refused 3 'J-20-2 (epoch 2), but its current state is J-10-1' 2 left.toml --lost c --to fsdp=4
}
side_by_side 3 in_time saved_dcp saved_megatron stopped invalid_requests sent_by_leaving planned_bytes ended_after_save left pruned
echo ok
