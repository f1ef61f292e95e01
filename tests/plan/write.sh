#!/bin/sh
# write.sh TPX: tpx plan --check accepts plans that tests/plan/write_plan.py writes without tpx, examples/execute_plan.py
# executes the one for a checkpoint, and tpx refuses them if a byte or a column is changed. Exits with 77 (skipped)
# without h5py or numpy.
set -eu
cd "$(dirname "$0")/../.."
tpx=$1
# shellcheck source=tests/plan/with_python.sh
. tests/plan/with_python.sh

# refused FILE: tpx plan --check says no (3).
refused() {
    status=0
    "$tpx" plan --check "$1" >"$scratch/out" 2>"$scratch/error" || status=$?
    if [ "$status" -ne 3 ]; then
        echo "exit status $status: $(cat "$scratch/out" "$scratch/error")"
        exit 1
    fi
}

for kind in model checkpoint; do
    mkdir "$scratch/$kind"
    "$python" tests/plan/write_plan.py "$kind" "$scratch/$kind"
    "$tpx" plan --check "$scratch/$kind/change.plan"
    size=$(wc -c <"$scratch/$kind/change.plan")
    for eighth in 0 1 2 3 4 5 6 7; do
        at=$((600 + (size - 600) * eighth / 8))
        cp "$scratch/$kind/change.plan" "$scratch/altered.plan"
        letter=X
        if [ "$(tail -c "+$((at + 1))" "$scratch/altered.plan" | head -c 1 | tr '\0' .)" = X ]; then letter=Y; fi
        printf %s "$letter" | dd of="$scratch/altered.plan" bs=1 seek="$at" conv=notrunc 2>"$scratch/dd"
        refused "$scratch/altered.plan"
    done
    for column in transfers/from transfers/end loads/staging needers/begin parcels/recut hosts/nic blocks/price \
        sources/iteration; do
        rm -rf "$scratch/wrong"
        mkdir "$scratch/wrong"
        "$python" tests/plan/write_plan.py "$kind" "$scratch/wrong" "$column"
        status=0
        "$tpx" plan --check "$scratch/wrong/change.plan" >"$scratch/out" 2>"$scratch/error" || status=$?
        test "$status" -ne 0
    done
done
"$tpx" plan "$scratch/checkpoint/ckpt" --check "$scratch/checkpoint/change.plan" --quiet
rm -rf "$scratch/wrong"
mkdir "$scratch/wrong"
"$python" tests/plan/write_plan.py checkpoint "$scratch/wrong" cells/box
refused "$scratch/wrong/change.plan"
grep -q cells "$scratch/error"
"$python" examples/execute_plan.py "$scratch/checkpoint/change.plan" "$scratch/executed"
"$python" -c '
import sys, numpy
for rank in range(2):
    assert (numpy.fromfile(f"{sys.argv[1]}/rank-{rank}.safetensors", "u1")[-64:].view("<f4") == range(16)).all()
' "$scratch/executed"
