#!/bin/sh
# demo.sh: installs what is missing, builds tpx, and has four MPI ranks reshard a real checkpoint; the result is verified.
set -eu
cd "$(dirname "$0")/.."
sh scripts/setup.sh
. scripts/mpi-env.sh

echo "demo: building"
mkdir -p build
{
    cmake --preset release -B build/demo -DBUILD_TESTING=OFF && cmake --build build/demo --target tpx
} >build/demo.log 2>&1 || { cat build/demo.log; exit 1; }
PATH=$PWD/build/demo/cmd:$PATH

out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
trap 'exit 130' INT TERM

# show COMMAND...: prints the command, and runs it on the checkpoints of testdata/, writing into $out.
show() {
    printf '\n$ %s\n' "$*"
    (cd "$out" && "$@")
}
ln -s "$PWD/testdata/llama-small/megatron-tp2pp2" "$out/megatron"

show tpx inspect megatron
show tpx plan megatron --to tp=4
show mpirun -n 4 tpx reshard megatron tp4 --to tp=4
show tpx verify megatron tp4
show mpirun -n 4 tpx reshard tp4 hf --to tp=1 --format safetensors
ln -s "$PWD/testdata/llama-small/hf" "$out/transformers"
show tpx verify transformers hf
printf '\ndemo: done\n'
