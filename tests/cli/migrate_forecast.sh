#!/bin/bash
# migrate_forecast.sh TPX TESTDATA SPARSE_STORES: tests what tpx migrate --dry-run predicts on emulated hosts: the messages and bytes
# of the run that follows, from stores that hold a checkpoint, and from stores with holes in place of its data.
set -u
tpx=$1 testdata=$2 sparse_stores=$3
# shellcheck source=tests/cli/emulated_stores.sh
. "$(dirname "$0")/emulated_stores.sh"

# number NAME: the number with key NAME in the JSON of the last run.
number() { grep -o "\"$1\":[0-9]*" out | head -n 1 | grep -o '[0-9]*$'; }
# foreseen PROCESSES HOSTS ARGS...: a dry run writes nothing, and predicts what the run without --dry-run does.
foreseen() {
    find s -printf '%p %s %T@\n' | sort >before
    done_with '"written":false' "$@" --dry-run --json
    find s -printf '%p %s %T@\n' | sort | cmp -s - before || fail "--dry-run has written: $*"
    local messages bytes traffic
    messages=$(number messages) bytes=$(number bytes_between_hosts)
    traffic=$(grep -o '"hosts":\[{"name":.*"sends":[0-9]*,"receives":[0-9]*}\]' out)
    { [ "$(number manifest_bytes)" -gt 0 ] && [ "$(number memory)" -gt 1000000 ]; } || fail "no manifest or memory: $*"
    done_with '"written":true' "$@" --json
    [ "$messages" -eq "$(number messages)" ] || fail "$messages messages were foreseen: $*"
    [ "$bytes" -eq "$(number bytes_between_hosts)" ] || fail "$bytes bytes were foreseen: $*"
    grep -qF -- "$traffic" out || fail "other bytes of hosts were foreseen: $*"
}

dcp=$testdata/training/dcp megatron=$testdata/llama-small/megatron-tp2pp2
for case in "$dcp|7|tp=2,fsdp=4|tp=2,fsdp=3|fsdp=4" "$megatron|10|tp=4,pp=2|tp=2,pp=2|pp=2"; do
    IFS='|' read -r ckpt iteration first second third <<<"$case"
    rm -rf s
    done_with 'epoch 1' 4 4x2 --import "$ckpt" --iteration "$iteration" --to "$first" --replicas 2
    foreseen 3 4x2 --lost host1 --to "$second" --replicas 2
    foreseen 3 4x2 --lost host1 --leaving host3 --to "$third"
    whole "$ckpt" host0 host2
done
done_with 'metadata  [0-9]* reads of stores' 3 4x2 --lost host1 --leaving host3 --to tp=2 --dry-run
grep -q '^estimate  [^:]*: plan .*, move ' out || fail "no phases"
grep -q 'assumed rates: disk read, disk write' out || fail "does not name the assumed rates"
done_with '^estimate  .*: check files .*, plan .*, move ' 3 4x2 --lost host1 --leaving host3 --to tp=2 --prune --dry-run
done_with '"forecast":{"seconds":' 3 4x2 --lost host1 --leaving host3 --export exported --dry-run --json
[ ! -e exported ] || fail "--dry-run has exported"
done_with '"leaving":{"within_seconds":.*' 3 4x2 --lost host1 --leaving host3 --within 90s --to tp=1 --dry-run --json
rm -rf s
done_with '"forecast":{"seconds":' 3 3x2 --import "$megatron" --to auto --dry-run --json

# A dry run compares sizes, not contents, and says so.
done_with 'epoch 1' 4 4x2 --import "$dcp" --iteration 7 --to fsdp=4,vn=4
shard=$(find s/host0/current/ -name '*.distcp' -size +0 | head -n 1)
printf x | dd of="$shard" bs=1 seek=200 conv=notrunc status=none || exit
done_with 'note: --dry-run compares files by size' 4 4x2 --to fsdp=2,vn=4 --dry-run
refused 3 'no host has an intact copy' 4 4x2 --to fsdp=2,vn=4
truncate -s -1 "$shard" || exit
refused 3 'no host has an intact copy' 4 4x2 --to fsdp=2,vn=4 --dry-run
rm -rf s
done_with 'epoch 1' 4 4x2 --import "$dcp" --iteration 7 --to fsdp=4,vn=4
refused 2 'is a single file' 4 4x2 --to tp=1,vn=4 --format torch --dry-run
refused 2 'which cannot change' 4 4x2 --to fsdp=2,vn=2 --dry-run
refused 2 'do not fit' 4 4x2 --to fsdp=16,vn=16 --dry-run

# Apart from their holes, sparse stores equal those of an import, and a change of them is predicted in the same way.
mv s imported
"$sparse_stores" "$dcp" 's/{host}' 8x8 tp=2,fsdp=32 2 7 >out 2>err || fail "no sparse stores"
mv s sparse
done_with 'epoch 1' 8 8x8 --import "$dcp" --iteration 7 --to tp=2,fsdp=32 --format dcp --replicas 2
without() { sed -E 's/"(change|request|plan|crc)":"[0-9a-f]*"//g' "$1"; }
cmp -s <(without s/host5/current/manifest.json) <(without sparse/host5/current/manifest.json) || fail "another manifest"
names() { (cd "$1/host5/current/" && find . -printf '%P %s\n' | grep -v manifest.json | sort); }
cmp -s <(names s) <(names sparse) || fail "other files in sparse stores"
rm -rf s && mv sparse s
foreseen 6 8x8 --lost host3,host7 --to tp=2,fsdp=24 --replicas 2
ready 0 8x8 8
echo ok
