#!/bin/bash
# migrate_bad_input.sh TPX TESTDATA: tests that tpx migrate --store rejects full stores, unknown and duplicate hosts,
# and outdated stores with one line each, before anything is written, and that it does not depend on the clocks of
# hosts.
set -u
tpx=$1 testdata=$2
# shellcheck source=tests/cli/emulated_stores.sh
. "$(dirname "$0")/emulated_stores.sh"
trap 'umount s/host1 small 2>/dev/null; cd / && rm -rf "$scratch"' EXIT
dcp=$testdata/llama-rope/dcp-fsdp2
# unchanged STATUS TEXT ...: as refused(), and nothing is written to staging either.
unchanged() {
    refused "$@"
    [ -z "$(find s -path '*/staging/*')" ] || fail "something was written: ${*:3}"
}

# A store without enough space.
mkdir -p s/host1
if mount -t tmpfs -o size=128k tmpfs s/host1 2>/dev/null; then
    mkdir -p s/host0/states s/host0/staging s/host1/states s/host1/staging
    unchanged 1 's/host1: not enough disk space ([0-9]* bytes needed, [0-9]* available); .*--prune' 2 2x2 \
        --import "$dcp" --iteration 7 --to fsdp=4
    mount -o remount,size=400k s/host1 || exit
    done_with 'epoch 1' 2 2x2 --import "$dcp" --iteration 7 --to fsdp=4
    whole "$dcp" host0 host1
    # There is no space for the next state in addition to this one.
    unchanged 1 's/host1: not enough disk space ' 2 2x2 --to fsdp=3 --replicas 2
    # --prune removes states that are neither current nor needed before free space is checked.
    mkdir s/host1/states/j-1-0 && head -c 220000 /dev/urandom >s/host1/states/j-1-0/data || exit
    unchanged 1 's/host1: not enough disk space .*--prune' 2 2x2 --to fsdp=3
    done_with 'epoch 2' 2 2x2 --to fsdp=3 --prune
    [ "$(ls s/host1/states)" = "$(ls s/host0/states)" ] || fail "--prune has left states"
    umount s/host1
    # The same for an export, and for plain folders.
    mkdir -p small && mount -t tmpfs -o size=128k tmpfs small || exit
    rm -rf s
    done_with 'epoch 1' 2 2x2 --import "$dcp" --iteration 7 --to fsdp=4
    unchanged 1 'small: not enough disk space ([0-9]* bytes needed, [0-9]* available)' 2 2x2 --export small/exported
    mkdir -p plain && for host in host0 host1; do cp -R "$dcp" "plain/$host" && "$tpx" verify --write "plain/$host" >out 2>err || exit; done
    mpirun -n 2 "$tpx" migrate 'plain/{host}' 'small/{host}' --emulate --hosts 2x2 --to fsdp=4 --replicas 2 >out 2>err
    { [ $? -eq 1 ] && grep -q 'small: not enough disk space ([0-9]* bytes needed' err; } || fail "plain folders without room"
    [ -z "$(ls small)" ] || fail "something was written without room"
    umount small
    checked='a store without room, '
else
    checked=
fi
rm -rf s

# A damaged archive: its host finds the damage, and the error names the file of this host and the tensor.
mkdir -p damaged/host0 damaged/host1
cp "$dcp/.metadata" "$dcp/__0_0.distcp" damaged/host0 && cp "$dcp/.metadata" "$dcp/__1_0.distcp" damaged/host1 || exit
printf X | dd of=damaged/host1/__1_0.distcp bs=1 seek=$(($(stat -c %s damaged/host1/__1_0.distcp) - 22)) conv=notrunc status=none
mpirun -n 2 "$tpx" migrate 'damaged/{host}' 'new/{host}' --emulate --hosts 2x1 --to fsdp=1 >out 2>err
{ [ $? -eq 1 ] && grep -q "tpx: damaged/host1/__1_0.distcp: tensor '[a-z_.0-9]*': " err; } || fail "a damaged archive"
[ ! -e new ] || fail "something was written of a damaged archive"

# Hosts that are unknown, named twice, or not given.
done_with 'epoch 1' 3 3x2 --import "$dcp" --iteration 7 --to fsdp=6
unchanged 2 "lost: no host is called 'host9'" 3 3x2 --to fsdp=3 --lost host9
unchanged 2 "spare: no host is called 'hosst1'; did you mean 'host1'" 3 3x2 --to fsdp=3 --spare hosst1
unchanged 2 "host 'host1' cannot be lost and leaving" 2 3x2 --to fsdp=2 --lost host1 --leaving host1
unchanged 2 "lost: names 'host1' twice" 3 3x2 --to fsdp=2 --lost host1,host1
unchanged 2 "lost: names 'host1:0' twice" 3 3x2 --to fsdp=2 --lost host1:0,host1:0
unchanged 2 "lost: names host 'host1' and its device 0; name one of them" 2 3x2 --to fsdp=2 --lost host1:0,host1
unchanged 2 "lost: names host 'host1' and its device 0; name one of them" 2 3x2 --to fsdp=2 --lost host1,host1:0
unchanged 2 "leaving: names 'host1' twice" 3 3x2 --to fsdp=2 --leaving 'host[0-1],host1'
unchanged 2 "rejoin: names 'host2' twice" 3 3x2 --to fsdp=2 --rejoin host2,host2
unchanged 2 "spare: names 'host2' twice" 3 3x2 --to fsdp=2 --spare host2,host2
printf 'host0 slots=2\nhost1 slots=2\nhost0 slots=2\n' >twice
unchanged 2 "twice:3: host 'host0' is already named on line 1" 3 twice --to fsdp=3
unchanged 3 "no host has an intact copy of .*; the state is also on host2, which --hosts lacks; pass --fallback" 2 2x2 --to fsdp=2
mpirun -n 1 "$tpx" migrate --store 's/{host}' --hosts twice.other --to fsdp=1 >out 2>err
{ [ $? -eq 1 ] && grep -q 'twice.other: No such file' err; } || fail "a file of hosts that does not exist"
printf 'nowhere slots=2\n' >elsewhere
mpirun -n 1 "$tpx" migrate --store 's/{host}' --hosts elsewhere --to fsdp=1 >out 2>err
{ [ $? -eq 2 ] && grep -q "runs on '.*', which is not one of the 1 host; run a process on each host" err; } || fail "a process on no host"

# Clocks: neither old nor future times of files matter, only epochs.
find s/host0 -exec touch -h -d '2001-01-01' {} +
find s/host1 -exec touch -h -d '2040-01-01' {} +
done_with 'epoch 2' 3 3x2 --to fsdp=4 --replicas 2
whole "$dcp" host0 host1 host2
find s/host0 -exec touch -h -d '2040-01-01' {} +
find s/host2 -exec touch -h -d '1990-01-01' {} +
done_with 'nothing to do' 3 3x2 --to fsdp=4 --replicas 2

# A host returns with an old epoch, although its files are the newest.
cp -a s/host1 away
done_with 'epoch 3' 2 3x2 --lost host1 --to fsdp=3 --replicas 2
rm -rf s/host1 && mv away s/host1 && find s/host1 -exec touch -h -d '2040-01-01' {} +
unchanged 1 "host 'host1' is outdated: its store has epoch 2 (iteration 7), host 'host0' has epoch 3 (iteration 7); pass --rejoin host1" 3 3x2 --to fsdp=2
unchanged 1 "host 'host1' is outdated" 3 3x2
unchanged 1 "host 'host1' is outdated" 3 3x2 --export exported
[ -e exported ] && fail "an export of outdated stores exists"
# All hosts except one return with an old epoch.
cp -a s/host0 newest && rm -rf s/host0 && cp -a s/host1 s/host0
rm -rf s/host2 && mv newest s/host2
unchanged 1 "hosts 'host0', 'host1' are outdated: their stores have epoch 2 (iteration 7), host 'host2' has epoch 3 .*; pass --rejoin host\[0-1\]" 3 3x2 --to fsdp=2

# The outdated host has the later iteration, because an import went back to an earlier one.
cp -a s kept && rm -rf s
done_with 'iteration 900, epoch 1' 3 3x2 --import "$dcp" --iteration 900 --to fsdp=3 --replicas 2
cp -a s/host1 away
done_with 'iteration 500, epoch 2' 2 3x2 --lost host1 --import "$dcp" --iteration 500 --to fsdp=2
rm -rf s/host1 && mv away s/host1
unchanged 1 "pass --rejoin host1 to treat its store as empty; the state on host 'host1' has the later iteration 900: to continue from this one, pass --rejoin host\[0,2\] instead\|pass --rejoin host1 to treat its store as empty; the state on host 'host1' has the later iteration 900: to continue from this one, pass --rejoin host0,host2 instead" 3 3x2 --to fsdp=2
rm -rf s && mv kept s

# Errors about the state in the stores name the file of a host, or the stores, and no rank.
mv s/host1 kept && mkdir s/host1 && rm -rf s kept
done_with 'epoch 1' 3 3x2 --import "$testdata/llama-small/megatron-tp2pp2"
unchanged 2 '^tpx: s/{host}/current: layout: 8 attention heads cannot be split across tp=3' 3 3x2 --to tp=3
mkdir plain2 && for host in host0 host1; do cp -R "$dcp" "plain2/$host" && printf X >"plain2/$host/.metadata" || exit; done
mpirun -n 2 "$tpx" migrate 'plain2/{host}' 'new/{host}' --emulate --hosts 2x1 --to fsdp=1 >out 2>err
{ [ $? -eq 1 ] && grep -q '^tpx: plain2/host0/.metadata: ' err; } || fail "the file in the error is not that of a host"
rm -rf s
done_with 'epoch 1' 3 3x2 --import "$dcp" --iteration 7 --to fsdp=6

# No host has a state that can be used.
unchanged 3 'no host has an intact copy of the current state (the stores of --rejoin count as empty); use --import' 3 3x2 --to fsdp=2 \
    --rejoin 'host[0-2]'
for host in host0 host1 host2; do echo '{}' >"s/$host/current/manifest.json" || exit; done
unchanged 3 'no host has an intact copy of the current state; use --import' 3 3x2 --to fsdp=2
echo "ok: ${checked}hosts, clocks and epochs"
