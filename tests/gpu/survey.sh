#!/bin/sh
# survey.sh TPX: tpx profile hardware with stand-ins for CUDA and NCCL: what is measured of GPUs reaches file and map, what
# fails is left out with a note, and without a GPU nothing is said of them.
set -eu
tpx=$1
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=scripts/mpi-env.sh
. "$here/../../scripts/mpi-env.sh"
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
cd "$out"

# survey NAME: measures with four ranks into NAME.toml and NAME.txt, notes into NAME.err.
survey() { mpirun -n 4 "$tpx" profile hardware --skip memory --skip disk --seconds 2 -o "$1.toml" >"$1.txt" 2>"$1.err"; }

# expect FILE PATTERN COUNT: so many lines of FILE match.
expect() {
    found=$(grep -c "$2" "$1") || :
    [ "$found" -eq "$3" ] && return
    echo "$1 has $found lines '$2' in place of $3"
    cat "$1"
    exit 1
}

FAKE_GPUS=2 survey two
expect two.toml '^gpus = 2$' 2 # devices of the host, members of NCCL
for key in to_device from_device copy peers; do expect two.toml "^$key = \[" 2; done
expect two.toml '^gpu_ipc = \[' 1
expect two.toml '^all_reduce = \[' 1
expect two.toml '^bus = "0000:a1:00.0"' 1
expect two.txt 'Fake GPU' 2
expect two.txt 'NCCL, 2 GPUs: all-reduce' 1
expect two.err 'not measured' 0

FAKE_GPUS=2 FAKE_FAULT=cudaIpcGetMemHandle survey ipc
expect ipc.err 'GPUs of two processes: not measured: .*cudaIpcGetMemHandle: fake fault' 1
expect ipc.toml '^gpu_ipc' 0
expect ipc.toml '^to_device = \[' 2

FAKE_GPUS=2 FAKE_FAULT=ncclAllReduce FAKE_FAULT_PLACE=1 survey nccl
expect nccl.err 'NCCL: not measured: .*ncclAllReduce' 1
expect nccl.toml '^all_reduce' 0

FAKE_GPUS=0 survey none
expect none.txt 'GPU 0' 0
expect none.err 'not measured' 0
