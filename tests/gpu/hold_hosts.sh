#!/bin/bash
# hold_hosts.sh TPX TESTDATA CUDART: tpx hold moves state between the keepers of several hosts, with a fake CUDA runtime (CUDART): from and to
# memory of GPUs by way of host memory. Each process of mpirun is a host with keepers of its own.
set -u
tpx=$1 testdata=$2 CUDART=$3
# shellcheck source=tests/gpu/holding.sh
. "$(dirname "$0")/holding.sh"
export RUN=$scratch/run
mkdir -m 700 "$RUN/0" "$RUN/1" || exit 1
# shellcheck disable=SC2016 # expands in the script
printf '#!/bin/sh\nexport XDG_RUNTIME_DIR=$RUN/$OMPI_COMM_WORLD_RANK\n[ "$OMPI_COMM_WORLD_RANK" = 0 ] || export FAKE_FAULT=$FAULT_1\nexec "$@"\n' >as-host
chmod +x as-host
on() { XDG_RUNTIME_DIR=$RUN/$1 "${@:2}"; }
hosts() { mpirun -n 2 ./as-host "$@"; }
# shellcheck disable=SC2317 # called by a trap
release() {
    local host pid
    for host in 0 1; do for pid in $(on $host pids); do kill "$pid"; done; done
}
trap 'release; end' EXIT
# nothing_new: no host holds new state.
nothing_new() { for host in 0 1; do goes "$RUN/$host/tpx/new.sock"; done; }

runs "$tpx" hold ckpt --name whole --to tp=4
on 0 runs "$tpx" hold ckpt --name old --ranks 0,1 --device cuda
on 1 runs "$tpx" hold ckpt --name old --ranks 2,3
runs hosts "$tpx" hold hold:old --name new --to tp=4 --device cuda --json
python3 -c 'import json; found = json.load(open("out")); assert [one["gpus"] for one in found["hosts"]] == [[0, 1], [0, 1]], found' || fail "$(cat out)"
# Each host got two ranks, on its GPUs 0 and 1.
for rank in 0 1 2 3; do
    runs client take whole $rank
    mv out one
    on $((rank / 2)) runs client take new $rank
    diff one out || fail "rank $rank: other bits"
done
nothing_new

# One host cannot use its GPUs: with auto, its state is in host memory, and otherwise all hosts end.
for fault in cudaMalloc cudaGetDeviceCount; do
    export FAULT_1=$fault
    refuses 1 "rank 1: " hosts "$tpx" hold hold:old --name new --to tp=4 --device cuda
    grep -q "fake fault" err || fail "another error"
    nothing_new
    runs hosts "$tpx" hold hold:old --name new --to tp=4 --device auto --json
    python3 -c 'import json; found = json.load(open("out")); assert [len(one["gpus"]) for one in found["hosts"]] == [2, 0] and found["hosts"][1]["reason"], found' || fail "$(cat out)"
    for host in 0 1; do on $host runs "$tpx" hold --release new; done
done
refuses 1 "there is no GPU 9" hosts "$tpx" hold hold:old --name new --to tp=4 --device cuda --rank-gpus 9
nothing_new
echo "hold_hosts: all as it should be"
