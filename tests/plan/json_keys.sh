#!/bin/sh
# json_keys.sh TPX: tpx-plan(1) documents every key that tpx plan prints with --json. Exit 77: no Python here.
set -eu
cd "$(dirname "$0")/../.."
tpx=$1
python=${TPX_PYTHON-python3}
"$python" -c 'import json' 2>/dev/null || {
    echo "skipped: no $python"
    exit 77
}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
ckpt=testdata/llama-small/megatron-tp2pp2
"$tpx" plan "$ckpt" --to tp=4 --output "$scratch/change.plan" --quiet >"$scratch/log"
number=0
print() {
    number=$((number + 1))
    "$tpx" plan "$@" --json --quiet >"$scratch/$number.json"
}
print "$ckpt" --to tp=4 --hosts 4x1 --state-in memory
print --model gpt3-1.3b --from tp=4 --to tp=4,dp=2 --hosts 2x4
print --model gpt3-1.3b --from tp=4 --to tp=4,dp=2 --hosts 2x4 --survive
print --model gpt3-1.3b --from tp=4,dp=2,zero=1 --to tp=4,dp=2,zero=1 --hosts 2x4 --format mcore
print --model gpt3-1.3b --from tp=4 --to tp=4 --hosts 2x4 --lost host1:0 --state-in shared
print --model gpt3-1.3b --from tp=4,dp=2 --to tp=4,dp=2 --hosts 3x6 --lost host0:0
print "$ckpt" --to tp=4 --hosts 4x1 --state-in memory --list
print --model mixtral-8x22b --from tp=2,ep=4,dp=4 --to tp=2,ep=2,dp=2 --hosts 4x2 --list
print "$ckpt" --check "$scratch/change.plan"
print --model gpt3-1.3b --from tp=2,dp=4,zero=1 --to pp=2,dp=3,zero=1 --hosts 2x4
print --model gpt3-1.3b --from tp=2,dp=4,zero=1 --to pp=2,dp=3,zero=1 --hosts 4x2 --objective time
print --model gpt3-1.3b --from tp=2,dp=4,zero=1 --to pp=2,dp=3,zero=1 --hosts 2x4 --placement groups -o "$scratch/groups.plan"
print --check "$scratch/groups.plan"
print --model gpt3-1.3b --from tp=4 --to auto --hosts 2x4
print --model gpt3-1.3b --from tp=4 --via tp=2,pp=2 --to pp=4 --hosts 2x4
print --model gpt3-1.3b --from tp=4 --via tp=2,pp=2 --to pp=4 --hosts 2x4 --list
"$python" tests/plan/json_keys.py man/tpx-plan.1.in "$scratch"/*.json
