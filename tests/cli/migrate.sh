#!/bin/bash
# migrate.sh TPX TESTDATA [SEED]: tpx migrate between stores of emulated hosts. However the files are distributed over
# the stores, the new stores together equal the old state, each has the files that its ranks read, and the bytes between
# hosts are those of the plan. Wrong stores, hosts and outputs are refused in one line, and nothing is left behind; a
# killed run is continued.
set -u
tpx=$1 testdata=$2
RANDOM=${3:-1}
# shellcheck source=scripts/mpi-env.sh
. "$(dirname "$0")/../../scripts/mpi-env.sh"
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
trap 'exit 130' INT TERM
cd "$scratch" || exit 1
fail() {
    echo "migrate: $*" >&2
    cat err out >&2
    exit 1
}

# distribute CKPT HOSTS: stores/hostK for each of HOSTS hosts. Files of tensor data go to one or two hosts at random, all
# others to every host.
distribute() {
    rm -rf stores new all && mkdir stores && cp -RL "$1" all && rm -f all/fixture.json || exit
    "$tpx" verify --write all >out 2>err || fail "cannot record digests of $1"
    (cd all && find . -type f) | sort >files
    local file host last=$(($2 - 1)) places
    while IFS= read -r file; do
        places=$(seq 0 $last)
        case $file in
        *.distcp | *optim_states.pt | *layer_*.pt | *rank_*/*.pt | *.safetensors | */[0-9]*) places="$((RANDOM % $2)) $((RANDOM % $2))" ;;
        esac
        for host in $places; do
            mkdir -p "stores/host$host/$(dirname "$file")" && cp "all/$file" "stores/host$host/$file" || exit
        done
    done <files
}

# migrate HOSTS DEVICES RANKS ARGS...: runs tpx migrate; leaves its exit status in $status.
migrate() {
    mpirun -n "$3" "$tpx" migrate 'stores/{host}' 'new/{host}' --emulate --hosts "$1x$2" "${@:4}" >out 2>err
    status=$?
}

# whole: the new stores together equal the state of the old ones.
whole() {
    rm -rf merged && mkdir merged || exit
    for store in new/*; do cp -R "$store/." merged/ || exit; done
    "$tpx" verify all merged >verified 2>&1 || { cat verified >&2; fail "$1: the state has changed"; }
    [ -z "$(find new -name '*.partial*' -o -name 'tpx.inbox')" ] || fail "$1: something is left in new"
}

# changes CKPT LAYOUT...: to each of the layouts, on random numbers of hosts, devices and processes.
cases=0
changes() {
    local ckpt=$1 layout hosts
    shift
    for layout in "$@"; do
        hosts=$((RANDOM % 3 + 2))
        distribute "$ckpt" "$hosts"
        migrate "$hosts" $((RANDOM % 2 + 2)) $((hosts + RANDOM % 2)) --to "$layout" --json
        [ "$status" -eq 0 ] || fail "$ckpt to $layout on $hosts hosts: status $status"
        tr '{' ',' <out | tr ',' '\n' | awk -F '[:}]' '
            /"sends"/ { sent += $2 } /"receives"/ { received += $2 } /"bytes_between_hosts"/ { planned = $2; found = 1 }
            END { exit !(found && sent == planned && received == planned) }' ||
            fail "$ckpt to $layout: hosts sent and received other amounts than were planned"
        whole "$ckpt to $layout"
        cases=$((cases + 1))
    done
}

changes "$testdata/llama-rope/dcp-fsdp2" fsdp=4 tp=2 tp=2,fsdp=2 fsdp=3
changes "$testdata/llama-small/megatron-tp2pp2" tp=4 pp=4 tp=2,dp=2 tp=1
changes "$testdata/llama-opt/legacy-tp2-dp2" tp=1,dp=2 tp=2,pp=2
"$tpx" reshard "$testdata/llama-small/megatron-tp2pp2" zarr --to tp=2,pp=2 --format zarr >out 2>err || fail "no zarr checkpoint"
changes zarr tp=4 tp=2,dp=2
changes "$testdata/deepspeed/zero3-subgroups-dp2" dp=4 dp=3 dp=1
changes "$testdata/deepspeed/mpu-tp2-dp2" dp=2 tp=2,dp=2
changes "$testdata/llama-small/hf" tp=2 tp=1
[ "$cases" -ge 19 ] || fail "only $cases cases"

# From one host to five. Four of them have no store yet and get the same bytes, which some forward.
distribute "$testdata/llama-opt/legacy-tp2-dp2" 1
migrate 5 1 6 --to dp=5
[ "$status" -eq 0 ] || fail "from one host to five: status $status"
for host in 1 2 3 4; do diff -r new/host0 "new/host$host" || fail "host$host has something else"; done
whole "from one host to five"

# The second host has the whole state, the first one half.
distribute "$testdata/llama-rope/dcp-fsdp2" 2
cp all/*.distcp stores/host1/ && rm -f stores/host0/__1_0.distcp && cp all/__0_0.distcp stores/host0/ || exit
migrate 2 2 2 --to fsdp=2,dp=2
[ "$status" -eq 0 ] || fail "fsdp=2,dp=2: status $status"
whole "fsdp=2,dp=2"

# A dry run writes nothing.
mv new kept
migrate 2 2 2 --to tp=2 --dry-run
{ [ "$status" -eq 0 ] && grep -q 'nothing was written' out && [ ! -e new ]; } || fail "dry run: status $status"
mv kept new

# refused STATUS TEXT ARGS...: tpx migrate exits with STATUS and one line with TEXT, and changes nothing.
refused() {
    find stores new 2>/dev/null | sort >before
    migrate 2 "${devices:-2}" "${ranks:-2}" "${@:3}"
    { [ "$status" -eq "$1" ] && grep -q "$2" err; } || fail "not refused with status $1 and '$2', but $status: ${*:3}"
    [ "$(grep -c '^tpx:' err)" -eq 1 ] || fail "more than one line: ${*:3}"
    find stores new 2>/dev/null | sort >after
    cmp -s before after || fail "something was left or removed: ${*:3}"
}
refused 1 'already exists' --to tp=2
refused 1 'already exists' --to tp=2 --dry-run
rm -rf new
mpirun -n 2 "$tpx" migrate 'stores/{host}' 'stores/{host}/new' --hosts 2x2 --emulate --to tp=2 >out 2>err
{ [ $? -eq 1 ] && grep -q 'is inside the store' err && [ ! -e stores/host0/new ]; } || fail "an output in a store was made"
ranks=1 refused 2 "no process runs on host 'host1'" --to tp=2
ranks=1 refused 1 'stores of lost hosts are not read' --to tp=2 --lost host1
devices=1 refused 2 'do not fit' --to tp=8
refused 2 'layout' --to tp=x
mv stores/host1/.metadata metadata
refused 1 'is missing' --to tp=2
mv metadata stores/host1/.metadata
rm -r stores/host1 && cp -R stores/host0 stores/host1
first=$(find stores/host1 -name '*.distcp' | head -n 1)
printf x | dd of="$first" bs=1 seek=2000 conv=notrunc status=none
refused 1 'differs between the stores' --to tp=2
cp "stores/host0/${first#stores/host1/}" "$first"
distribute "$testdata/llama-rope/dcp-fsdp2" 2
rm stores/host*/tpx.digests.json
# The save ID in .metadata shows that the files belong together; without it, only digests do.
migrate 2 2 2 --to tp=2 --dry-run
[ "$status" -eq 0 ] || fail "rejected although .metadata has a save ID"
sed -i s/save_id/xxxx_id/ stores/host*/.metadata
refused 1 'neither an iteration nor a save ID' --to tp=2
rm -r stores && mkdir stores
refused 1 'has any file' --to tp=2
mpirun -n 1 "$tpx" migrate stores 'new/{host}' --hosts 1x2 --emulate --to tp=2 >out 2>err
{ [ $? -eq 2 ] && grep -q 'has no {host} in it' err; } || fail "a path without {host} was taken"
mpirun -n 2 "$tpx" migrate 'stores/{host}' 'new/{host}' --hosts 2x2 --to tp=2 >out 2>err
{ [ $? -eq 2 ] && grep -q 'which is not one of' err; } || fail "hosts that are not these were taken"

# A killed run leaves no output, and is continued.
distribute "$testdata/llama-opt/legacy-tp2-dp2" 2
for delay in 0.02 0.1 0.2 0.3 0.4; do
    rm -rf new
    mpirun -n 2 "$tpx" migrate 'stores/{host}' 'new/{host}' --emulate --hosts 2x1 --to tp=2 >out 2>err &
    sleep "$delay"
    pkill -KILL -P $! tpx 2>/dev/null
    wait
    if [ -d new/host0 ] && [ -d new/host1 ]; then whole "killed after $delay s" && continue; fi
    rm -rf new/host0 new/host1
    migrate 2 1 2 --to tp=2
    [ "$status" -eq 0 ] || fail "not continued after a kill: status $status"
    whole "continued"
done
echo "$cases changes"
