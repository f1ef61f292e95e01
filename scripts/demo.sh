#!/bin/sh
# demo.sh [FOLDER]: reshards a real checkpoint with four MPI ranks, and verifies the result. Uses the tpx in FOLDER; without
# FOLDER, installs missing packages and builds tpx, without the part for GPUs, which no command here needs.
set -eu
cd "$(dirname "$0")/.."
. scripts/mpi-env.sh

if [ $# -eq 0 ]; then
    sh scripts/setup.sh
    echo "demo: building"
    mkdir -p build
    {
        cmake --preset release -B build/demo -DBUILD_TESTING=OFF -DTPX_CUDA=OFF && cmake --build build/demo --target tpx
    } >build/demo.log 2>&1 || { cat build/demo.log; exit 1; }
fi
PATH=${1-$PWD/build/demo/cmd}:$PATH

out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
trap 'exit 130' INT TERM

# show COMMAND...: prints the command, and runs it in $out, which links to checkpoints of testdata/.
show() {
    printf '\n$ %s\n' "$*"
    (cd "$out" && "$@")
}
# A checkpoint that Megatron-core saved, and the same model as saved by transformers.
ln -s "$PWD/testdata/llama-small/megatron-tp2pp2" "$out/megatron"
ln -s "$PWD/testdata/llama-small/hf" "$out/transformers"

show tpx inspect megatron
show tpx plan megatron --to tp=4
show mpirun -n 4 tpx reshard megatron tp4 --to tp=4
show tpx verify megatron tp4
show mpirun -n 4 tpx reshard tp4 hf --to tp=1 --format safetensors
show tpx verify --weights-only transformers hf
