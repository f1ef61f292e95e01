#!/bin/bash
# migrate_stores.sh TPX TESTDATA: tests tpx migrate --store on emulated hosts. A state that is imported, changed, exported or
# recovered from replicas equals that of the checkpoint. Invalid, damaged and outdated stores are rejected with one line, and
# then nothing changes.
set -u
tpx=$1 testdata=$2
# shellcheck source=tests/cli/emulated_stores.sh
. "$(dirname "$0")/emulated_stores.sh"

dcp=$testdata/llama-rope/dcp-fsdp2 megatron=$testdata/llama-small/megatron-tp2pp2 zero=$testdata/deepspeed/zero3-subgroups-dp2
# shellcheck source=tests/cli/side_by_side.sh
. "$(dirname "$0")/side_by_side.sh"

# imported CKPT ITERATION LAYOUT OTHER: imports from several formats, changes of layout and hosts, and exports.
imported() {
    local ckpt=$1 iteration=$2 first=$3 second=$4
    done_with "iteration $iteration, epoch 1" 3 3x2 --import "$ckpt" --iteration "$iteration"
    whole "$ckpt" host0 host1 host2
    ready 0 3x2 2
    grep -q '^epoch      1$' out || fail "inspect does not show the epoch"
    done_with 'epoch 2' 3 3x2 --to "$first" --replicas 2
    whole "$ckpt" host0 host1 host2
    done_with 'nothing to do' 4 3x2 --to "$first" --replicas 2
    done_with 'epoch 3' 2 3x2 --lost host1 --to "$second" --replicas 2 --prune
    whole "$ckpt" host0 host2
    [ "$(find s/host0/states -mindepth 1 -maxdepth 1 | wc -l)" -eq 1 ] || fail "old states are left"
    done_with 'sent' 2 3x2 --lost host1 --export exported
    "$tpx" verify "$ckpt" exported >out 2>err || fail "the export is not the checkpoint"
    refused 1 'already exists' 2 3x2 --lost host1 --export exported
    ready 0 3x2 3
    grep -q 'host1 .*(outdated)' out || fail "inspect does not show that host1 is outdated"
    refused 1 "host 'host1' is outdated: its store has epoch 2" 3 3x2 --to "$first"
    done_with 'epoch 4' 3 3x2 --to "$first" --rejoin host1
    done_with 'nothing to do' 3 3x2 --to "$first" --rejoin host1
    whole "$ckpt" host0 host1 host2
    done_with 'epoch 5' 3 3x2 --leaving host0 --to "$second"
    whole "$ckpt" host1 host2
    [ "$(readlink s/host0/current)" != "$(readlink s/host1/current)" ] || fail "host0 did not leave"
    done_with 'nothing to do' 3 3x2 --leaving host0 --to "$second"
}
imported_dcp() { imported "$dcp" 7 fsdp=4 fsdp=3; }
imported_megatron() { imported "$megatron" 10 tp=4 pp=4; }
imported_zero() { imported "$zero" 2 dp=3 dp=1; }
# A later checkpoint of the same job can be imported in a layout that pads the vocabulary to another size.
padded_again() {
    done_with 'epoch 1' 2 2x2 --import "$megatron"
    done_with 'epoch 2' 2 2x2 --import "$megatron" --to tp=1
    whole "$megatron" host0
}
# Nothing can be done if the only hosts left never had a state.
no_state_left() {
    done_with 'epoch 1' 1 2x2 --lost host1 --import "$megatron" --to tp=1
    mkdir -p s/host1/states s/host1/staging
    refused 3 'no remaining host has a current state' 1 2x2 --lost host0 --to tp=1
}
# Files that are damaged or missing on one host are read from another host that has a copy.
damaged_files() {
    done_with 'epoch 1' 3 3x2 --import "$dcp" --iteration 7 --to fsdp=4 --replicas 2 --job rope
    shard=$(find s/host0/current/ -name '*.distcp' -printf '%P\n' | head -n 1)
    printf x | dd of="s/host0/current/$shard" bs=1 seek=2000 conv=notrunc status=none || exit
    done_with "host 'host0': .*$shard: its content does not match the checksum" 3 3x2 --to fsdp=3 --replicas 2
    whole "$dcp" host0 host1 host2
    shard=$(find s/host1/current/ -name '*.distcp' -printf '%P\n' | head -n 1)
    truncate -s 100 "s/host1/current/$shard" || exit
    done_with "host 'host1': .*$shard: has 100 bytes" 3 3x2 --to fsdp=4
    [ "$(grep -c 'has 100 bytes' err)" -eq 1 ] || fail "moved the state twice because of damage that was known"
    whole "$dcp" host0 host1 host2
}
# damaged_on_the_way FILE: damage that is found while the state moves, also in metadata: the state is moved again, and nothing is left behind.
damaged_on_the_way() {
    local file=$1 arguments
    for arguments in '--to fsdp=3' '--to auto' '--export exported'; do
        rm -rf s exported
        done_with 'epoch 1' 3 3x2 --import "$dcp" --iteration 7 --to fsdp=4 --replicas 2 --job rope
        printf x | dd of="s/host0/current/$file" bs=1 seek=50 conv=notrunc status=none || exit
        # shellcheck disable=SC2086
        done_with "host 'host0': .*$file: its content does not match the checksum" 3 3x2 $arguments
        if [ -e exported ]; then "$tpx" verify "$dcp" exported >out 2>err || fail "another checkpoint is exported"; else whole "$dcp" host0 host1 host2; fi
    done
}
damaged_metadata() { damaged_on_the_way .metadata; }
damaged_shard() { damaged_on_the_way __0_0.distcp; }
# If no host has a copy, an error names the lost tensors, unless there is a fallback of the same iteration.
lost_tensors() {
    done_with 'epoch 1' 3 3x2 --import "$dcp" --iteration 7 --to fsdp=4 --job rope
    shard=$(find s/host0/current/ -name '*.distcp' -printf '%P\n' | head -n 1)
    printf x | dd of="s/host0/current/$shard" bs=1 seek=2000 conv=notrunc status=none || exit
    refused 3 "no host has an intact copy of .* tensor.*$shard.*--fallback" 3 3x2 --to fsdp=2
    [ -z "$(find s -path '*/staging/*')" ] || fail "something is left in staging"
    done_with 'epoch 2' 3 3x2 --to fsdp=4 --fallback "$dcp" --iteration 7
    shard=$(find s/host0/current/ -name '*.distcp' -printf '%P\n' | head -n 1)
    for host in 0 1 2; do rm -f "s/host$host/current/$shard"; done
    refused 3 "no host has an intact copy of .* tensors: .*$shard.*--fallback" 3 3x2 --to fsdp=2
    refused 3 "no host has an intact copy" 3 3x2 --export exported
    refused 1 "$megatron: its tensors have other names or shapes than those of job 'rope'" 3 3x2 --to tp=2 --fallback "$megatron"
    refused 3 "has iteration 8, but the stores have 7; to return to iteration 8, pass it to --import" 3 3x2 --to fsdp=2 --fallback "$dcp" --iteration 8
    refused 2 'does not record its iteration; pass --iteration' 3 3x2 --to fsdp=2 --fallback "$dcp"
    refused 1 'has iteration 10, not 7' 3 3x2 --to tp=2 --fallback "$megatron" --iteration 7
    done_with "all state is read from $dcp" 3 3x2 --to fsdp=2 --fallback "$dcp" --iteration 7
    whole "$dcp" host0 host1 host2
    grep -q "iteration 7," out || fail "the iteration has changed"
}
# Different jobs, different states of one epoch, and invalid requests.
invalid_requests() {
    done_with 'epoch 1' 3 3x2 --import "$dcp" --iteration 7 --to fsdp=2 --job rope
    refused 1 "contains job 'rope', not 'other'" 3 3x2 --import "$dcp" --iteration 7 --job other
    refused 1 "contains job 'rope', whose tensors have other names" 3 3x2 --import "$megatron"
    refused 2 'must consist of letters' 3 3x2 --import "$dcp" --iteration 7 --job a/b
    refused 2 'exclude each other' 3 3x2 --import "$dcp" --iteration 7 --export exported
    refused 2 'is a single file' 3 3x2 --format torch --to tp=1
    refused 2 'tpx: --replicas 4: only 3 hosts' 3 3x2 --to fsdp=2 --replicas 4
    refused 2 'do not fit' 3 3x2 --to fsdp=16
    refused 2 "no process runs on host 'host2'" 2 3x2 --to fsdp=3
    refused 2 "no host is called 'host9'" 3 3x2 --to fsdp=3 --leaving host9
    refused 2 "no host is called 'host9'" 3 3x2 --to fsdp=3 --rejoin host9
    refused 1 'missing: there is no such folder on this host' 3 3x2 --to fsdp=3 --decision-dir missing
    mkdir shared && done_with 'epoch' 3 3x2 --to fsdp=3 --decision-dir shared && done_with 'epoch' 3 3x2 --to fsdp=2 --prune
    [ -z "$(find shared -name 'tpx-decision-*')" ] || fail "a decision that no host needs is left"
    # A decision is needed until all hosts have switched.
    old=$(readlink s/host0/current) && mkdir s/host1/current.new
    migrate 3 3x2 --to fsdp=3 --decision-dir shared
    { [ "$status" -eq 4 ] && grep -q 'the change is decided: run the same command to complete it' err; } || fail "status $status of a switch that is not applied"
    [ -n "$(find shared -name 'tpx-decision-*')" ] || fail "no decision was recorded in shared"
    rmdir s/host1/current.new
    done_with 'had been decided: it was completed' 3 3x2 --to fsdp=3 --decision-dir shared
    [ -z "$(find shared -name 'tpx-decision-*')" ] || fail "a decision that no host needs is left"
    [ "$(readlink s/host0/current)" != "$old" ] || fail "the switch was not completed"
    whole "$dcp" host0 host1 host2
    done_with 'epoch' 3 3x2 --to fsdp=2 --prune
    # The same model, trained further and saved by other ranks.
    "$tpx" reshard "$dcp" resaved --to tp=2 --format dcp >out 2>err || fail "no checkpoint of the same model"
    done_with "iteration 8" 3 3x2 --import resaved --iteration 8 --to fsdp=2
    mpirun -n 1 "$tpx" migrate a b --hosts 1x1 --to tp=1 --import x >out 2>err
    { [ $? -eq 2 ] && grep -q -- '--import: requires --store' err; } || fail "--import without --store"
    mkdir t && mpirun -n 1 "$tpx" migrate --store 't/{host}' --emulate --hosts 1x1 --to tp=1 >out 2>err
    { [ $? -eq 1 ] && grep -q 'use --import CKPT first' err; } || fail "empty stores were changed"
    mpirun -n 1 "$tpx" migrate --store 'u/{host}' --emulate --hosts 1x4 --import "$dcp" --iteration 7 --job else >out 2>err || fail "no import"
    rm -rf s/host2 && cp -R u/host0 s/host2
    refused 1 "different jobs: 'rope' on host 'host0', 'else' on host 'host2'" 3 3x2 --to fsdp=3
    sed -i 's/"layout":"fsdp=2"/"layout":"fsdp=9"/' s/host1/current/manifest.json
    done_with "host 'host1': its current state is not used: .*its checksum is wrong" 3 3x2 --to fsdp=3 --rejoin host2
    whole "$dcp" host0 host1 host2
    # A change that was interrupted before host0 switched is completed, although host2 has a later epoch of another job.
    old=$(readlink s/host0/current)
    done_with 'epoch' 3 3x2 --to fsdp=2
    new=$(readlink s/host0/current)
    ln -sfn "$old" s/host0/current && cp s/host0/decision s/host0/prepared
    while [ "$(grep -o '"epoch":[0-9]*' u/host0/current/manifest.json | cut -d: -f2)" -le "$(grep -o '"epoch":[0-9]*' s/host1/current/manifest.json | cut -d: -f2)" ]; do
        for layout in fsdp=2 tp=1; do
            mpirun -n 1 "$tpx" migrate --store 'u/{host}' --emulate --hosts 1x4 --to "$layout" >out 2>err || fail "no change of u"
        done
    done
    rm -rf s/host2 && cp -R u/host0 s/host2
    done_with "an earlier change to ${new##*/} had been decided: it was completed" 3 3x2 --to fsdp=3 --rejoin host2
    whole "$dcp" host0 host1 host2
    (flock 9; migrate 3 3x2 --to fsdp=4; exit "$status") 9<s/host1
    [ $? -eq 1 ] || fail "a store was changed that another run changes"
    "$tpx" inspect --store u >out 2>err
    { [ $? -eq 1 ] && grep -q "not a store" err; } || fail "inspect takes a folder for a store"
}
# Values that are computed during reading, such as those of a norm that Megatron stores minus 1, are also read from
# stores.
computed_values() {
    printf 'family = "llama"\nextends = ["llama"]\n[dialects.titan]\nrules = [["[model.]norm.weight", "norm - 1"]]\n' >less.toml
    done_with 'epoch 1' 3 3x2 --import "$testdata/llama-rope/hf" --iteration 7 --format dcp --dialect titan --to fsdp=3 --rules less.toml
    grep -q 'added -1 to the values of 1 tensor' err || fail "the norm was not changed"
    done_with 'sent' 3 3x2 --to fsdp=2 --rules less.toml
    done_with 'sent' 3 3x2 --export exported --to tp=1 --format safetensors --dialect hf --config "$testdata/llama-rope/hf/config.json" --rules less.toml
    "$tpx" verify --weights-only "$testdata/llama-rope/hf" exported >out 2>err || fail "the export is not the checkpoint"
}
# Only the requested state is written.
json_for_trainers() {
    done_with 'epoch 1' 3 3x2 --import "$dcp" --iteration 7 --to fsdp=3 --job rope
    find s | sort >before
    done_with 'nothing was written' 3 3x2 --to fsdp=5 --dry-run
    find s | sort >after
    cmp -s before after || fail "--dry-run has written"
    # The JSON tells launchers where each rank runs.
    done_with '' 3 3x2 --to tp=2,fsdp=2 --json
    grep -q '"ranks":\[{"rank":0,"host":"host[0-2]","device":[01],"env":{"RANK":"0","WORLD_SIZE":"4"' out || fail "no ranks in the JSON"
    grep -q "\"TPX_STATE\":\"$PWD/s/host[0-2]/current\",\"TPX_LAYOUT\":\"tp=2,fsdp=2\",\"TPX_TP\":\"2\"" out || fail "no degrees in the JSON"
    # The JSON tells trainers which virtual nodes a rank runs, and their samples in each batch, which do not depend on dp.
    nodes_of() { grep -o '{"number":[0-9]*,"samples":\[[0-9]*,[0-9]*\]}' out | sort -u; }
    done_with '' 3 3x2 --to tp=2,fsdp=3,vn=8 --batch 20 --json
    grep -q '"global_batch":20' out || fail "no batch in the JSON"
    grep -q '"TPX_VN":"8","TPX_VN_BEGIN":"6","TPX_VN_END":"8","TPX_GLOBAL_BATCH":"20","TPX_LOCAL_BATCH":"4","TPX_GRADIENT_WEIGHT":"0.2"' out ||
        fail "no virtual nodes in the environment"
    grep -q '"share":{"dp_rank":2,"virtual_nodes":\[{"number":6,"samples":\[16,18\]},{"number":7,"samples":\[18,20\]}\],"samples":\[16,20\],"local_batch":4,"gradient_weight":0.2}' out ||
        fail "no share in the JSON"
    nodes_of >nodes
    [ "$(wc -l <nodes)" -eq 8 ] || fail "not all virtual nodes run"
    done_with '' 3 3x2 --to fsdp=2,vn=8 --batch 20 --json
    nodes_of | cmp -s - nodes || fail "the samples of virtual nodes depend on dp"
    done_with '"share":{"dp_rank":0,"virtual_nodes":\[{"number":0},{"number":1}\]}' 3 3x2 --to fsdp=4,vn=8 --json
    refused 2 'vn=4, but the state in the stores has vn=8' 3 3x2 --to fsdp=2,vn=4
    refused 2 'vn=8 virtual nodes cannot run on dp=12' 3 3x4 --to fsdp=12,vn=8
    refused 2 'batch of 7 samples cannot be split over vn=8' 3 3x2 --to fsdp=2,vn=8 --batch 7
    refused 2 'batch: requires virtual nodes; add vn=N to --to' 3 3x2 --import "$dcp" --iteration 8 --to fsdp=2 --batch 8
    refused 2 "batch: 'x' is not a whole number of at least 1" 3 3x2 --to fsdp=2,vn=8 --batch x
}
side_by_side 3 invalid_requests imported_dcp imported_megatron imported_zero damaged_metadata damaged_shard lost_tensors json_for_trainers \
    damaged_files computed_values padded_again no_state_left
echo ok
