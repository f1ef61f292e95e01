#!/bin/sh
# demo.sh [FOLDER]: has four MPI ranks reshard a real checkpoint; the result is verified. tpx is the one in FOLDER; without it
# what is missing is installed, and tpx is built.
set -eu
cd "$(dirname "$0")/.."
. scripts/mpi-env.sh

if [ $# -eq 0 ]; then
    sh scripts/setup.sh
    echo "demo: building"
    mkdir -p build
    {
        cmake --preset release -B build/demo -DBUILD_TESTING=OFF && cmake --build build/demo --target tpx
    } >build/demo.log 2>&1 || { cat build/demo.log; exit 1; }
fi
PATH=${1-$PWD/build/demo/cmd}:$PATH

out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
trap 'exit 130' INT TERM

# show COMMAND...: prints the command, and runs it on the checkpoints of testdata/, writing into $out.
show() {
    printf '\n$ %s\n' "$*"
    (cd "$out" && "$@")
}
# What Megatron-core saved, and the same model as transformers saved it.
ln -s "$PWD/testdata/llama-small/megatron-tp2pp2" "$out/megatron"
ln -s "$PWD/testdata/llama-small/hf" "$out/transformers"

show tpx inspect megatron
show tpx plan megatron --to tp=4
show mpirun -n 4 tpx reshard megatron tp4 --to tp=4
show tpx verify megatron tp4
show mpirun -n 4 tpx reshard tp4 hf --to tp=1 --format safetensors
show tpx verify --weights-only transformers hf
