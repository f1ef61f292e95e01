#!/bin/bash
# migrate_readers.sh TPX TESTDATA: tests that tpx migrate --store --export does not prevent other runs from changing the
# stores of emulated hosts, that the state that it reads is not pruned, and that a signal stops it with status 75.
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
sleep 0.3
readers=$(pgrep -P $exporter tpx) # which are stopped, so that they still read if the machine is busy
# shellcheck disable=SC2086 # one word per process
kill -STOP $readers
done_with 'j-7-1 is current' 2 2x2
done_with 'epoch 2' 2 2x2 --to fsdp=4 --prune
[ -e s/host0/states/j-7-1 ] || fail "a state that is read was pruned"
grep -q "prune: host 'host0' keeps j-7-1, which another tpx migrate is reading; prune again after it" err || fail "does not name the state that is read"
grep -q "prune: host 'host1' keeps j-7-1" err || fail "does not name the state that is read on host1"
# shellcheck disable=SC2086
kill -CONT $readers
wait $exporter || { cat first.err >&2; fail "the export ends with an error"; }
"$tpx" verify "$dcp" first >out 2>err || fail "the export is not the checkpoint"
done_with 'nothing to do' 2 2x2 --prune
if grep -q keeps err; then fail "names a state that nobody reads"; fi
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

# An export that is stopped keeps what it has written, and the same command continues it, unless --restart is given.
has_written() {
    for _ in $(seq 200); do
        [ -n "$(find third.partial-*/.tpx -name 'journal.0.*' -size +95c 2>/dev/null)" ] && return 0
        sleep 0.02
    done
    fail "no export has written anything"
}
for restart in '' --restart; do
    rm -rf third*
    export_to third
    exporter=$!
    has_written
    kill -USR1 "$(pgrep -P $exporter tpx | head -n 1)"
    wait $exporter
    status=$?
    { [ $status -eq 75 ] && grep -q 'what is written is kept; run the same command to continue' third.err; } || {
        cat third.err >&2
        fail "a signal ends the export with $status"
    }
    # shellcheck disable=SC2086
    done_with '"written":true' 2 2x2 --export third --json $restart
    if grep -q '"bytes_kept":0' out; then kept=no; else kept=yes; fi
    [ "$kept" = "$([ "$restart" ] && echo no || echo yes)" ] || fail "kept: $kept, with '$restart'"
    "$tpx" verify "$dcp" third >out 2>err || fail "the export that was continued is not the checkpoint"
    [ -z "$(find . -maxdepth 1 -name 'third.partial-*')" ] || fail "something is left of the export"
done
rm -rf third*

# During a run that has switched only one host, status runs, exports and dry runs do not report the other one as
# outdated.
rm -rf s
done_with 'epoch 1' 2 2x2 --import "$dcp" --iteration 7 --job j --to fsdp=2
done_with 'epoch 2' 2 2x2 --to fsdp=4
ln -sfn states/j-7-1 s/host1/current && rm -r s/host1/decision s/host1/states/j-7-2 || exit
for request in '' '--export third' '--to fsdp=2 --dry-run'; do
    # shellcheck disable=SC2086
    (flock 9; refused 1 'another tpx migrate is using the stores; try again' 2 2x2 $request) 9<s/host0 || exit 1
    grep -q rejoin err && fail "advises --rejoin"
    # shellcheck disable=SC2086
    refused 1 "host 'host1' is outdated" 2 2x2 $request
done
(flock 9; refused 1 'another tpx migrate is changing this store' 2 2x2 --to fsdp=2) 9<s/host0 || exit 1
# A dry run does not plan from stores that an interrupted change has not settled.
cp s/host0/decision s/host0/prepared
refused 1 'a change to j-7-2 was interrupted; run tpx migrate without --dry-run' 2 2x2 --to fsdp=2 --dry-run
echo ok
