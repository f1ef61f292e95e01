#!/bin/bash
# migrate_launch.sh TPX TESTDATA: tests the output of tpx migrate --store for launchers on emulated hosts. --to auto
# chooses the layout that tpx plan --to auto lists first, and a run with nothing to do prints the same ranks as the run
# that moved the state.
set -u
tpx=$1 testdata=$2
# shellcheck source=tests/cli/emulated_stores.sh
. "$(dirname "$0")/emulated_stores.sh"

# planned HOSTS ARGS...: the layout that tpx plan --to auto lists first for copies of the current states of all hosts,
# with the digests that it requires.
planned() {
    local store digests
    rm -rf p all && mkdir p all || exit
    for store in s/*; do
        [ -e "$store/current" ] || continue
        cp -RL "$store/current" "p/${store#s/}" && rm "p/${store#s/}/manifest.json" && cp -R "p/${store#s/}/." all/ || exit
    done
    "$tpx" verify --write all >out 2>err || fail "cannot write digests"
    digests=$(cd all && find . -name tpx.digests.json)
    for store in p/*; do cp "all/$digests" "$store/$digests" || exit; done
    "$tpx" plan --stores 'p/{host}' --to auto --hosts "$@" --json --quiet >plan.json 2>err || fail "no plan: $*"
    if "$tpx" plan --stores 'p/{host}' --to auto --hosts "$@" --throughput none.toml >out 2>err; then fail "--throughput is ignored"; fi
    grep -q '^tpx: none.toml: ' err || fail "names no throughput file"
    sed 's/.*"candidates":\[{"layout":"\([^"]*\)".*/\1/' plan.json
}
# chosen LAYOUT: the last run has moved to LAYOUT.
chosen() {
    [ -n "$1" ] || fail "tpx plan lists no layout"
    grep -q "\"layout\":{\"text\":\"$1\",.*\"written\":true" out || fail "has not chosen $1"
}
# ranks: the ranks in the JSON of the last run.
ranks() { grep -o '"ranks":\[{"rank":0.*}\],"state"' out; }
# stays PROCESSES HOSTS ARGS...: the run has nothing to do, and prints the same ranks as the last run.
stays() {
    ranks >moved
    [ -s moved ] || fail "no ranks in the JSON of a run that moved"
    done_with '"written":false' "$@" --json
    ranks | cmp -s - moved || fail "other ranks than those of the run that moved: $*"
}

dcp=$testdata/llama-rope/dcp-fsdp2 megatron=$testdata/llama-small/megatron-tp2pp2 zero=$testdata/deepspeed/zero3-subgroups-dp2

for case in "$dcp|7" "$megatron|10" "$zero|2"; do
    IFS='|' read -r ckpt iteration <<<"$case"
    rm -rf s
    done_with 'epoch 1' 4 4x2 --import "$ckpt" --iteration "$iteration" --replicas 2
    layout=$(planned 4x2 --lost host1) || exit 1
    done_with '' 3 4x2 --lost host1 --to auto --replicas 2 --json
    chosen "$layout"
    whole "$ckpt" host0 host2 host3
    stays 3 4x2 --lost host1 --to auto --replicas 2
    stays 3 4x2 --lost host1 --to "$layout" --replicas 2
    # The devices of a host that is leaving are not filled.
    done_with '' 3 4x2 --lost host1 --leaving host3 --to auto --json
    grep -q '"name":"host3","ranks":\[\],"files":0' out || fail "a host that is leaving has ranks"
    grep -q '"ranks":4,' out || fail "the devices of the hosts that remain are not filled"
    whole "$ckpt" host0 host2
    stays 3 4x2 --lost host1 --leaving host3 --to auto
done

# An import, and plain folders.
rm -rf s plain new
done_with '' 2 2x2 --import "$megatron" --to auto --json
grep -q '"ranks":4,.*"choice":{"compared":' out || fail "--import does not choose a layout"
whole "$megatron" host0 host1
mkdir plain && cp -R "$megatron" plain/host0 && cp -R "$megatron" plain/host1
mpirun -n 2 "$tpx" migrate 'plain/{host}' 'new/{host}' --emulate --hosts 2x1 --to auto >out 2>err || fail "plain folders: no layout"
grep -q -- '--to auto: .* is the best of' err || fail "plain folders: no layout named"
rm -rf merged && cp -R new/host0 merged && cp -R new/host1/. merged/
"$tpx" verify "$megatron" merged >out 2>err || fail "plain folders: another state"

# An interrupted run chooses the same layout when it is repeated, and the next run has nothing to do.
rm -rf s
done_with 'epoch 1' 3 3x2 --import "$dcp" --iteration 7 --to fsdp=2 --replicas 2
layout=$(planned 3x2) || exit 1
done_with "nothing was written" 3 3x2 --to auto --dry-run
grep -q -- "--to auto: $layout is the best of [0-9]* layouts" err || fail "does not name the layout"
done_with '' 3 3x2 --to auto --json
chosen "$layout"
stays 3 3x2 --to auto

# Techniques can be excluded.
done_with '' 3 3x2 --to auto --without tp,pp --json
grep -q '"tp":1,"pp":1,"dp":6' out || fail "--without does not exclude tensor and pipeline parallelism"
done_with '' 3 3x2 --to auto --only tp --json --dry-run
grep -q '"pp":1,.*"choice":{"compared":[0-9]*,"excluded":[1-9]' out || fail "--only does not exclude pipeline parallelism"
refused 2 'without and --only require --to auto' 3 3x2 --to fsdp=2 --without tp
refused 2 'xx' 3 3x2 --to auto --without xx

# Devices that are lost shift the ranks of their host, also in a run that has nothing to do.
done_with '' 3 3x2 --lost host0:0 --to fsdp=5 --json
stays 3 3x2 --lost host0:0 --to fsdp=5
ranks | grep -q '"host":"host0","device":1,' || fail "a rank is on a lost device"

# Virtual nodes and the data position are those of the state.
done_with '' 3 3x2 --to tp=2,fsdp=3,vn=8 --batch 20 --replicas 2 --json
stays 3 3x2 --to tp=2,fsdp=3,vn=8 --batch 20 --replicas 2
grep -q '"global_batch":20' out || fail "no batch in the JSON"
done_with '' 2 3x2 --to auto --lost host2 --json --batch 20
grep -q '"vn":8' out || fail "--to auto changes the number of virtual nodes"
printf 'samples = 1000\nseed = 3\nglobal_batch = 24\nconsumed = 48\n' >data.toml
rm -rf s
done_with '' 3 3x2 --import "$dcp" --iteration 7 --to fsdp=3,vn=6 --replicas 2 --data data.toml --json
grep -q '"TPX_GLOBAL_BATCH":"24"' out || fail "no batch in the environment"
stays 3 3x2
grep -q '"global_batch":24,"data":{.*"consumed":48' out || fail "no data position in the JSON"

# Without the hosts of all ranks, or with too few devices, launchers cannot start the ranks.
refused 3 's/{host}: the state is also on host2, which --hosts lacks; complete --hosts, or run tpx migrate --to fsdp=3,vn=6 to' 2 2x2 --json
printf 'host0 slots=1\nhost1 slots=2\nhost2 slots=2\n' >few
refused 3 'ranks of the state have no device on these hosts; run tpx migrate --to fsdp=3,vn=6 to place them' 3 few
done_with '"written":false.*"state":' 2 2x2 --json --prune

printf '[[hosts]]\nname = "host[0-2]"\ngpus = 2\ndevice_memory = "10 kB"\n' >small.toml
refused 3 'none of .* layouts fits' 3 small.toml --to auto

# The launch script, also that of a run with nothing to do, starts each rank on the host of its state.
rm -rf s && mkdir bin || exit
# shellcheck disable=SC2016 # of the script
printf '#!/bin/sh\necho "$TPX_STATE $TPX_LAYOUT $CUDA_VISIBLE_DEVICES $*"\n' >bin/torchrun && chmod +x bin/torchrun || exit
done_with '' 2 2x2 --import "$megatron" --to tp=2,pp=2 --launch launch.sh
done_with '"written":false' 2 2x2 --json --launch again.sh
cmp launch.sh again.sh || fail "another script if nothing has to move"
for node in 0 1; do
    said=$(PATH=$PWD/bin:$PATH TPX_HOST=host$node sh launch.sh torchrun -- train.py)
    [[ $said == "$PWD/s/host$node/current tp=2,pp=2 0,1 --nnodes=2 --node-rank=$node --nproc-per-node=2 "*" train.py" ]] || fail "'$said'"
done
refused 1 'nowhere' 2 2x2 --to tp=4 --launch nowhere/launch.sh
refused 2 'is inside s/host0, which is replaced as a whole' 2 2x2 --to tp=4 --launch s/host0/launch.sh
refused 2 'launch cannot be used with --export' 2 2x2 --export out --launch launch.sh
mpirun -n 2 "$tpx" migrate 's/{host}/current' 'hold:{host}' --emulate --hosts 2x2 --to tp=4 >out 2>err && fail "held state as an output"
grep -q "names held state and cannot be an output" err || fail "no reason for which held state is no output"
echo ok
