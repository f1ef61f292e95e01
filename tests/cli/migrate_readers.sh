#!/bin/bash
# migrate_readers.sh TPX TESTDATA: tests that tpx migrate --store --export does not keep other runs from changing the stores of
# emulated hosts, that the state that it reads is not pruned, and that a signal stops it with status 75.
set -u
tpx=$1 testdata=$2
# shellcheck source=tests/cli/emulated_stores.sh
. "$(dirname "$0")/emulated_stores.sh"
dcp=$testdata/llama-rope/dcp-fsdp2
# in_use: waits until an export reads s/host0/states/j-7-1.
in_use() {
    for _ in $(seq 200); do
        flock -n s/host0/states/j-7-1 true || return 0
        sleep 0.05
    done
    fail "no run uses the state"
}
# export_to OUT: begins a slow export.
export_to() {
    mpirun -n 2 "$tpx" migrate --store 's/{host}' --emulate --hosts 2x2 --export "$1" --background-rate 100kB/s >"$1.out" 2>"$1.err" &
}

done_with 'epoch 1' 2 2x2 --import "$dcp" --iteration 7 --job j --to fsdp=2
export_to first
exporter=$!
in_use
done_with 'j-7-1 is current' 2 2x2
done_with 'epoch 2' 2 2x2 --to fsdp=4 --prune
[ -e s/host0/states/j-7-1 ] || fail "a state that is read was pruned"
wait $exporter || { cat first.err >&2; fail "the export ends with an error"; }
"$tpx" verify "$dcp" first >out 2>err || fail "the export is not the checkpoint"
done_with 'nothing to do' 2 2x2 --prune
[ ! -e s/host0/states/j-7-1 ] || fail "nothing was pruned"

# A signal while files are compared. Only one process gets it; a launcher would send it to all.
rm -rf s
done_with 'epoch 1' 2 2x2 --import "$dcp" --iteration 7 --job j --to fsdp=2
export_to second
exporter=$!
in_use
kill -USR1 "$(pgrep -P $exporter tpx | head -n 1)"
wait $exporter
status=$?
{ [ $status -eq 75 ] && grep -q 'stopped on request while files were compared; the stores are as they were' second.err; } || {
    cat second.err >&2
    fail "a signal ends the comparison with $status"
}
echo ok
