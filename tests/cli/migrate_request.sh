#!/bin/bash
# migrate_request.sh TPX TESTDATA: tests what tpx migrate --store takes from the current state of emulated hosts if options do not
# say otherwise, and that a request in other words does nothing.
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

# Replicas stay, as far as there are hosts for them.
done_with 'epoch 1' 2 2x2 --import "$dcp" --iteration 7 --job j --replicas 2
done_with '' 2 2x2 --to fsdp=4 --json
has '"epoch":2' '"replicas":2'
cp -a s kept
done_with 'note: --replicas 1 instead of 2: only 1 host can store files' 1 2x2 --lost host1 --to fsdp=2 --json
has '"replicas":1'

# The same request in other words does nothing, nor does one for what the state is already.
rm -rf s && mv kept s
for words in fsdp4 tp=1,fsdp=4 'fsdp=4 --format fsdp2' 'fsdp=4 --replicas 2' 'fsdp=4 --rejoin host1'; do
    # shellcheck disable=SC2086
    done_with 'nothing to do' 2 2x2 --to $words
done
done_with 'epoch 3' 1 2x2 --lost host1 --to fsdp=2
done_with 'nothing to do' 1 2x2 --lost 'host[1-1]'

# Ranks run on devices that are not lost, also when a later run prints them.
rm -rf s
done_with '' 2 2x2 --import "$dcp" --iteration 7 --to fsdp=2 --lost host0:0,host1:0 --json
devices='"device":1,"env":{"RANK":"0","WORLD_SIZE":"2","LOCAL_RANK":"0","LOCAL_WORLD_SIZE":"1","TPX_STATE"'
for options in '' '--lost host0:0,host1:0'; do
    has "$devices" '"CUDA_VISIBLE_DEVICES":"1"' '"devices":[1]'
    # shellcheck disable=SC2086
    done_with '"written":false' 2 2x2 $options --json
done
has "$devices"

# The data position belongs to the iteration: only an import brings another one.
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
echo ok
