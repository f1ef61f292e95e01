#!/bin/bash
# hold_faults.sh TPX TESTDATA CUDART: state on GPUs where a rank does not use the GPU of its number, where GPUs fail once the state was
# read, and while readers wait for a copy.
set -u
tpx=$1 testdata=$2 CUDART=$3
# shellcheck source=tests/gpu/holding.sh
. "$(dirname "$0")/holding.sh"

# Ranks have the GPUs that tpx migrate gives them, also when one is lost.
mkdir from && cp -R ckpt from/host0 && cp -R ckpt from/host1 || exit 1
FAKE_GPUS=2
for device in cuda auto; do
    runs mpirun -n 2 "$tpx" migrate 'from/{host}' "to-$device/{host}" --emulate --hosts 2x2 --lost host1:0 --to fsdp=3 --hold 60 --hold-name 'state-{host}' --hold-device $device
    runs "$tpx" hold --list
    for place in "0: held on GPU 0" "1: held on GPU 1" "2: held on GPU 1"; do grep -q "rank $place, " out || fail "--lost host1:0: not rank $place"; done
    for host in host0 host1; do runs "$tpx" hold --release state-$host; done
    for host in host0 host1; do goes "$XDG_RUNTIME_DIR/tpx/state-$host.sock"; done
done
nothing_left

# With auto, what fails once the state was read leaves all of it in host memory. GPU 2 is not the first one.
FAKE_GPUS=4
on_host() {
    grep -q "note: the state is held in host memory: rank $1: GPU $1: $2" err || fail "no note"
    runs "$tpx" hold --list
    grep -q 'on GPU' out && fail "still on GPUs"
    runs "$tpx" verify ckpt hold:job
    for rank in 0 1 2 3; do runs client take job $rank; done
    goes "$XDG_RUNTIME_DIR/tpx/job.sock"
}
for call in cudaMalloc cudaMallocHost cudaMemcpyAsync cudaIpcGetMemHandle; do
    runs env FAKE_FAULT=$call FAKE_FAULT_GPU=2 "$tpx" hold ckpt --name job --device auto --json
    python3 -c 'import json; found = json.load(open("out")); assert found["gpus"] == [] and found["held"], found' || fail "--json"
    on_host 2 "$call: fake fault"
    refuses 1 "rank 2: GPU 2: $call: fake fault" env FAKE_FAULT=$call FAKE_FAULT_GPU=2 "$tpx" hold ckpt --name job --device cuda
done
runs env FAKE_FAULT=memory "$tpx" hold ckpt --name job --device auto
on_host 0 '.* do not fit: '
env FAKE_FAULT=cudaIpcGetMemHandle FAKE_FAULT_GPU=2 "$tpx" hold ckpt --name job --device auto --foreground >front.out 2>front.err &
front=$!
for _ in $(seq 2400); do [ -s front.out ] && break; sleep 0.05; done
cp front.err err
grep -q 'on GPU' front.out && fail "--foreground: still on GPUs"
on_host 2 'cudaIpcGetMemHandle: fake fault'
wait $front || fail "--foreground: exit $?"
nothing_left

# While state is copied for readers, which takes 4 s here, the keeper answers others.
copies() { find "/proc/$1/fd" -lname '/memfd:*' | wc -l; }
runs env FAKE_DELAY=1000 "$tpx" hold ckpt --name job --device cuda
pid=$(pids)
before=$(copies "$pid")
"$tpx" verify ckpt hold:job >verified 2>&1 &
reader=$!
for _ in $(seq 2400); do [ "$(copies "$pid")" -gt "$before" ] && break; sleep 0.05; done
runs "$tpx" hold --list
grep -q 'rank 3: held on GPU 3, ' out || fail "no answer while state is copied"
[ "$(copies "$pid")" -le $((before + 4)) ] || fail "all was copied at once"
keeper_refuses "rank 1 is being read by process" take job 1
wait $reader || fail "verify: $(cat verified)"
grep -q '^equal: 22 tensors and 2 values' verified || fail "not equal"
# A reader that is killed meanwhile leaves no copy, and another one gets it.
python3 "$here/../cli/hold_client.py" read job 60 >read.out &  # a function would run it in a subshell
reader=$!
for _ in $(seq 2400); do [ "$(copies "$pid")" -gt "$before" ] && break; sleep 0.05; done
kill -9 $reader
for _ in $(seq 2400); do [ "$(copies "$pid")" -eq "$before" ] && break; sleep 0.05; done
[ "$(copies "$pid")" -eq "$before" ] || fail "the copy for a killed reader stays"
runs "$tpx" verify ckpt hold:job
runs "$tpx" hold --release job
goes "$XDG_RUNTIME_DIR/tpx/job.sock"
nothing_left
echo "gpu hold_faults: all as it should be"
