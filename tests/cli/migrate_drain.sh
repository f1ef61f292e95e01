#!/bin/bash
# migrate_drain.sh TPX: tests tpx migrate --export --background-rate on a state of 120 MB: each host reads and writes
# at the given rate within 10 %, and the exported checkpoint equals the state.
set -u
tpx=$1
# In memory, if possible, so that the speed of a disk does not limit the rates.
scratch=$(mktemp -d -p /dev/shm 2>/dev/null || mktemp -d)
# shellcheck source=tests/cli/emulated_stores.sh
. "$(dirname "$0")/emulated_stores.sh"

# le64 NUMBER: a number as 8 bytes, the lowest first.
le64() {
    local k
    for k in 0 1 2 3 4 5 6 7; do printf '%b' "\\0$(printf %o $(($1 >> (8 * k) & 255)))"; done
}
# checkpoint: a safetensors checkpoint of 60 tensors with 2 MB each.
checkpoint() {
    local header='' k
    for k in $(seq 0 59); do
        header+="${header:+,}\"block.$k\":{\"dtype\":\"F32\",\"shape\":[1000,500],\"data_offsets\":[$((k * 2000000)),$(((k + 1) * 2000000))]}"
    done
    { le64 $((${#header} + 2)) && printf '{%s}' "$header" && head -c 120000000 /dev/urandom; } >"$1"
}
# drains HOSTS PROCESSES MEGABYTES RATE: the export of a state takes the time in which each host can read MEGABYTES twice, once
# for the check and once for the export, at RATE MB/s. It is never faster; as the machine may be busy, only one of three
# runs must be as fast.
drains() {
    for _ in 1 2 3; do
        rm -rf exported
        done_with '"background_rate"' "$2" "$1" --export exported --background-rate "$4MB/s" --json
        "$tpx" verify exported big.safetensors >verified 2>&1 || { cat verified >&2; fail "the export is not the checkpoint"; }
        seconds=$(sed 's/.*"seconds":\([0-9.]*\).*/\1/' out)
        echo "hosts $1, processes $2: $seconds s for twice $3 MB a host at $4 MB/s"
        took=$(awk -v seconds="$seconds" -v bytes="$3" -v rate="$4" 'BEGIN { printf "%.3f", seconds * rate / (2 * bytes) }')
        awk -v took="$took" 'BEGIN { exit !(took > 0.97) }' || fail "$seconds s: faster than the rate"
        awk -v took="$took" 'BEGIN { exit !(took < 1.1) }' && return
    done
    fail "$seconds s: slower than the rate, three times"
}

checkpoint big.safetensors
done_with 'epoch 1' 2 2x1 --import big.safetensors --iteration 3 --format dcp --to fsdp=2
# Each host has 60 MB.
drains 2x1 2 60 10
drains 2x1 4 60 10
# Without a limit, the same export is not that slow.
rm -rf exported
done_with '"seconds"' 2 2x1 --export exported --json
awk -v seconds="$(sed 's/.*"seconds":\([0-9.]*\).*/\1/' out)" 'BEGIN { exit !(seconds < 8) }' || fail "slow without a limit"

# A request to stop ends the export quickly.
rm -rf exported
mpirun -n 2 "$tpx" migrate --store 's/{host}' --emulate --hosts 2x1 --export exported --background-rate 1MB/s >out 2>err &
job=$!
sleep 2
kill "$job"
wait "$job"
[ -e exported ] && fail "an export that was stopped exists"

for bad in 0 -5MB/s 500 fast 500MB 1e400 nan 50kB/s; do
    refused 2 'background-rate: ' 2 2x1 --export other --background-rate "$bad"
done
refused 2 'background-rate: requires --export' 2 2x1 --to fsdp=1 --background-rate 1MB/s
mpirun -n 1 "$tpx" migrate a b --hosts 1x1 --to tp=1 --background-rate 1MB/s >out 2>err
{ [ $? -eq 2 ] && grep -q -- '--background-rate: requires --store' err; } || fail "--background-rate without --store"
echo ok
