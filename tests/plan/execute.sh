#!/bin/sh
# execute.sh TPX: examples/execute_plan.py gives new ranks the same state as tpx reshard, for checkpoints of several
# formats: from plans in which hosts forward bytes, hosts are lost, and optimizer state is split into flat ranges. Exits
# with 77 (skipped) without h5py or numpy.
set -eu
cd "$(dirname "$0")/../.."
tpx=$1
# shellcheck source=tests/plan/with_python.sh
. tests/plan/with_python.sh

# check CKPT LAYOUT SENDER OPTION...: the plan made with the options must have a transfer from a SENDER.
check() {
    ckpt=$1 layout=$2 sender=$3
    shift 3
    rm -rf "$scratch/executed" "$scratch/written"
    "$tpx" plan "$ckpt" --to "$layout" --format safetensors --dialect keep --output "$scratch/change.plan" --quiet \
        "$@" >"$scratch/plan"
    "$tpx" plan --check "$scratch/change.plan" >"$scratch/check"
    "$tpx" plan "$ckpt" --to "$layout" --format safetensors --dialect keep --list --json --quiet "$@" >"$scratch/list"
    grep -q "$sender" "$scratch/list"
    "$tpx" reshard "$ckpt" "$scratch/written" --to "$layout" --format safetensors --dialect keep --quiet >"$scratch/log"
    "$python" examples/execute_plan.py "$scratch/change.plan" "$scratch/executed"
    same=$("$python" tests/plan/same_pieces.py "$scratch/executed" "$scratch/written")
    echo "$ckpt to $layout: $same"
}

holds='"forwards":false'
forwards='"forwards":true'
storage='"from":null'
"$tpx" reshard testdata/llama-small/hf "$scratch/hf" --to tp=2,dp=2 --quiet >"$scratch/log"
check "$scratch/hf" pp=2,dp=2 "$holds" --hosts 4x1 --state-in memory
check "$scratch/hf" dp=8 "$forwards" --hosts 8x1 --state-in memory
check "$scratch/hf" tp=2 "$storage" --hosts 3x2 --lost host0,host1 --state-in shared
check testdata/dcp/fsdp2-tp2 dp=3,fsdp=3 "$holds" --hosts 4x1 --state-in memory
check testdata/llama-small/megatron-tp2pp2 fsdp=3,pp=2 "$holds" --hosts 3x2 --state-in memory
check testdata/llama-opt/legacy-tp2-dp2 dp=3,fsdp=3 "$holds" --hosts 4x1 --state-in memory
check testdata/llama-opt/legacy-tp2-dp2 pp=2,dp=3 "$holds" --hosts 3x2 --state-in memory --placement groups
check testdata/llama-small/megatron-tp2pp2 pp=2,dp=3 "$holds" --hosts 3x2 --state-in memory --objective time
# A tensor without elements has no cells.
"$python" -c 'import h5py, sys; f = h5py.File(sys.argv[1], "w"); f["a"] = [[1.0, 2.0], [3.0, 4.0]]; f.create_dataset("b", (0, 2), "f4")' \
    "$scratch/empty.h5"
check "$scratch/empty.h5" dp=2 "$holds" --hosts 2x1 --state-in memory
