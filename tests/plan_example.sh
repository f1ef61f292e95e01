#!/bin/sh
# plan_example.sh TPX: runs the Python examples of tpx-plan(5), the first on a plan from a model, the second on a plan
# for a checkpoint, and checks their output. Exits with 77 (skipped) without h5py.
set -eu
cd "$(dirname "$0")/.."
# shellcheck source=tests/plan/with_python.sh
. tests/plan/with_python.sh

# Prints example $1 of the page.
example() {
    awk -v wanted="$1" '/^\.Sh/ { is_here = $2 == "EXAMPLES" } !is_here { next }
        /^\.Bd -literal/ { inside = 1; count++; next } /^\.Ed/ { inside = 0 } inside && count == wanted' \
        man/tpx-plan.5.in
}

example 1 >"$scratch/sent.py"
cp testdata/plan/model.plan "$scratch/change.plan"
(cd "$scratch" && "$python" sent.py) >"$scratch/sent"
grep -qx 'host[0-9] -> host[0-9] [1-9][0-9]*' "$scratch/sent"
if grep -vx 'host[0-9] -> host[0-9] [1-9][0-9]*' "$scratch/sent"; then exit 1; fi

example 2 >"$scratch/moved.py"
"$1" plan testdata/llama-small/megatron-tp2pp2 --to tp=4 --output "$scratch/change.plan" >"$scratch/plan" 2>&1
(cd "$scratch" && "$python" moved.py) >"$scratch/moved"
grep -x '[1-9][0-9]*' "$scratch/moved"
