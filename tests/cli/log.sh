#!/bin/sh
# log.sh TPX TESTDATA: tests the events that --log appends, with one process and with two, for runs that succeed, fail
# and move nothing; files that are not logs are refused and stay unchanged.
set -u
tpx=$1
testdata=$2
# shellcheck source=scripts/mpi-env.sh
. "$(dirname "$0")/../../scripts/mpi-env.sh"
unset OMPI_COMM_WORLD_RANK PMIX_RANK PMI_RANK SLURM_PROCID SLURM_JOB_ID
scratch=$(mktemp -d) && trap 'rm -rf "$scratch"' EXIT
cp -R "$testdata/llama-small/hf" "$scratch/hf" || exit 1
cd "$scratch" || exit 1
fail() {
    echo "log: $*" >&2
    cat log err >&2
    exit 1
}

# events FILE: the names of its events in one line; each line is an object that begins with the time.
events() {
    ! grep -qv '^{"time":"20[0-9-]*T[0-9:]*\.[0-9]*Z","host":"[^"]*","pid":[0-9]*,"event":"[a-z]*",.*}$' "$1" || return 1
    sed 's/.*"event":"\([a-z]*\)".*/\1/' "$1" | uniq | tr '\n' ' '
}
# expect EVENTS EXIT: checks the events in the log since it was last empty, and the exit status in its last line.
expect() {
    [ "$(events log)" = "$1 " ] || fail "events $(events log), not $1"
    tail -n 1 log | grep -q "\"event\":\"end\",\"exit\":$2}" || fail "no end with exit $2"
}

"$tpx" reshard hf one --to tp=2 --format dcp --log log -q >out 2>err || fail "reshard failed"
expect "start plan result end" 0
grep -q '"event":"start","schema":"tpx.log/1","version":"' log || fail "start without a version"
grep -q '"event":"result","reshard":{"source":"hf","output":"one",.*"written":true' log || fail "wrong result"

# A second run appends.
"$tpx" reshard one two --to tp=1 --format hdf5 --dry-run --log log -q >out 2>err || fail "dry run failed"
expect "start plan result end start result end" 0

rm log
mpirun -n 2 "$tpx" reshard hf three --to tp=2 --log log >out 2>err || fail "two ranks failed"
expect "start plan note result end" 0

rm log
"$tpx" reshard hf one --to tp=2 --log log >out 2>err && fail "an output was replaced"
expect "start plan error end" 1
grep -q '"event":"error","text":"one: exists' log || fail "the error is not in the log"

rm log
mpirun -n 2 "$tpx" migrate --emulate --hosts 2x2 --store 's/{host}' --import hf --iteration 1 --to tp=2 --log log >out 2>err || fail "migrate failed"
expect "start note result end" 0

# A path that was mistyped.
before=$(cksum <hf/config.json)
"$tpx" reshard hf four --to tp=2 --log hf/config.json >out 2>err && fail "a file of the source was a log"
grep -q "^tpx: hf/config.json: exists and is not a log of tpx; choose another file" err || fail "wrong message"
[ "$before" = "$(cksum <hf/config.json)" ] || fail "the file has changed"
"$tpx" reshard hf four --to tp=2 --log none/log >out 2>err && fail "a log was in no folder"
grep -q "^tpx: none/log: No such file or directory" err || fail "wrong message"
[ ! -e four ] || fail "something was written"
