#!/bin/bash
# migrate_request.sh TPX TESTDATA: tests which settings tpx migrate --store takes by default from the current state of
# emulated hosts, and that an equivalent request does nothing.
set -u
tpx=$1 testdata=$2
# shellcheck source=tests/cli/emulated_stores.sh
. "$(dirname "$0")/emulated_stores.sh"
dcp=$testdata/llama-rope/dcp-fsdp2
# has TEXT...: the JSON of the last run contains these texts.
has() {
    local text
    for text in "$@"; do grep -qF -- "$text" out || fail "no '$text'"; done
}

# The number of replicas is kept, as far as there are hosts for them.
done_with 'epoch 1' 2 2x2 --import "$dcp" --iteration 7 --job j --replicas 2
done_with '' 2 2x2 --to fsdp=4 --json
has '"epoch":2' '"replicas":2'
cp -a s kept
done_with 'note: --replicas 1 instead of 2: only 1 host can store files' 1 2x2 --lost host1 --to fsdp=2 --json
has '"replicas":1'

# An equivalent request does nothing, nor does a request for the current state.
rm -rf s && mv kept s
for words in fsdp4 tp=1,fsdp=4 'fsdp=4 --format fsdp2' 'fsdp=4 --replicas 2' 'fsdp=4 --rejoin host1'; do
    # shellcheck disable=SC2086
    done_with 'nothing to do' 2 2x2 --to $words
done
done_with 'epoch 3' 1 2x2 --lost host1 --to fsdp=2
done_with 'nothing to do' 1 2x2 --lost 'host[1-1]'

# Ranks run on devices that are not lost, also in the output of a later run.
rm -rf s
done_with '' 2 2x2 --import "$dcp" --iteration 7 --to fsdp=2 --lost host0:0,host1:0 --json
devices='"device":1,"env":{"RANK":"0","WORLD_SIZE":"2","LOCAL_RANK":"0","LOCAL_WORLD_SIZE":"1","TPX_STATE"'
for options in '' '--lost host0:0,host1:0'; do
    has "$devices" '"CUDA_VISIBLE_DEVICES":"1"' '"devices":[1]'
    # shellcheck disable=SC2086
    done_with '"written":false' 2 2x2 $options --json
done
has "$devices"

# The data position belongs to the iteration: only an import changes it.
position() { printf 'samples = %s\nglobal_batch = 16\nseed = %s\nvirtual_nodes = 4\nconsumed = %s\n' "${@:2}" >"$1"; }
position first.toml 1000 7 160
position other.toml 1000 1 0
done_with 'epoch 2' 2 2x2 --import "$dcp" --iteration 7 --to fsdp=2 --data first.toml
refused 2 'data other.toml: has seed=1, consumed=0, but the state in the stores has seed=7, consumed=160; omit --data' 2 2x2 \
    --to fsdp=4 --data other.toml
done_with 'epoch 3' 2 2x2 --to fsdp=4 --data first.toml
done_with 'epoch 4' 2 2x2 --import "$dcp" --iteration 7 --to fsdp=2 --data other.toml

# The same import does nothing.
done_with 'nothing to do' 2 2x2 --import "$dcp" --iteration 7 --to fsdp=2 --data other.toml

# A wrong path of stores: nothing is created there, and the message names no other option.
mpirun -n 2 "$tpx" migrate --store 'typo/{host}' --emulate --hosts 2x2 --to fsdp=2 >out 2>err
{ [ $? -eq 1 ] && grep -q 'typo/{host}: no host has a store; use --import CKPT first' err && [ ! -e typo ]; } || fail "stores that do not exist"
mpirun -n 2 "$tpx" migrate --store plain --emulate --hosts 2x2 --to fsdp=2 >out 2>err
{ [ $? -eq 2 ] && grep -q "tpx: 'plain' has no {host}" err; } || fail "a path without {host}"

refused 2 'job: requires --import' 2 2x2 --to fsdp=4 --job j
refused 2 'iteration: requires --import or --fallback' 2 2x2 --to fsdp=4 --iteration 7
for option in '--fallback kept' --restart --pin '--spare host1'; do
    # shellcheck disable=SC2086
    refused 2 "${option%% *}: requires a change such as --to LAYOUT" 2 2x2 $option
done
refused 2 'export and --prune exclude each other' 2 2x2 --export exported --prune
done_with 'fallback missing: does not exist' 2 2x2 --to fsdp=4 --fallback missing

# An export that would end in a store, also through a link.
ln -s s/host1 link
for place in s/host0/exported s/host1/current/exported link/states/exported; do
    refused 2 "export $place: is inside the store .*/s/host" 2 2x2 --export "$place"
done

# A refused import leaves nothing behind, neither new stores nor files in an existing folder.
rm -rf s
refused 2 'does not record its iteration' 2 2x2 --import "$dcp"
refused 1 'missing: No such file' 2 2x2 --import missing
refused 2 'do not fit' 2 2x2 --import "$dcp" --iteration 7 --to fsdp=16
[ ! -e s ] || fail "a refused import has created s"
mkdir -p s/host1/mine
refused 2 'do not fit' 2 2x2 --import "$dcp" --iteration 7 --to fsdp=16
[ "$(find s)" = "$(printf 's\ns/host1\ns/host1/mine')" ] || fail "a refused import has left something in s"

# Two hosts with the same store, and names of hosts that lead out of the path.
ln -s host1 s/host0
refused 1 "s/{host}: hosts 'host0' and 'host1' have the same folder; each host needs its own store" 2 2x2 --import "$dcp" --iteration 7
printf 'host0 slots=2\n../evil slots=2\n' >evil
refused 2 "evil:2: '../evil' is not a valid host name: it contains '/'" 2 evil --import "$dcp" --iteration 7
printf '[[hosts]]\nname = ".."\n' >evil.toml
refused 2 "evil.toml:1: '..' is not a valid host name" 1 evil.toml --import "$dcp" --iteration 7
printf '[[hosts]]\nname = "a\\u0007b"\n' >evil.toml
refused 2 'evil.toml:1: .* is not a valid host name: it contains a control character' 1 evil.toml --import "$dcp" --iteration 7
rm -rf s && mkdir s && touch s/host1
refused 1 's/host1: is not a folder (--store)' 2 2x2 --import "$dcp" --iteration 7
rm -rf s

# A closed or full standard output does not hide that the change is complete.
done_with 'epoch 1' 2 2x2 --import "$dcp" --iteration 7 --job j
for options in '' --prune; do
    # shellcheck disable=SC2086
    { "$tpx" migrate --store 'one/{host}' --hosts 1x4 --emulate --import "$dcp" --iteration 7 $options 2>err; echo $? >code; } | true
    { [ "$(cat code)" -eq 4 ] && grep -q 'standard output: Broken pipe; one/{host}/current is complete and in place' err; } || fail "no reader: $(cat code)"
    [ -e one/host0/current/manifest.json ] || fail "no state without a reader"
    rm -rf one
done
{ { "$tpx" migrate --store 'one/{host}' --hosts 1x4 --emulate --import "$dcp" --iteration 7 2>&1; echo $? >code; } | true; } 2>/dev/null
[ "$(cat code)" -eq 4 ] || fail "neither a reader nor a place for errors: $(cat code)"
if [ -e /dev/full ]; then
    "$tpx" migrate --store 'one/{host}' --hosts 1x4 --emulate --to fsdp=4 --prune >/dev/full 2>err
    { [ $? -eq 4 ] && grep -q 'No space left on device; one/{host}/current is complete and in place' err; } || fail "standard output is full"
fi
echo ok
