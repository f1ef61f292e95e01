#!/bin/sh
# demo.sh: installs what is missing, builds tpx, and reshards a real checkpoint on four local MPI ranks.
set -eu
cd "$(dirname "$0")/.."
sh scripts/setup.sh
. scripts/mpi-env.sh

echo "demo: building"
mkdir -p build
cmake --preset release -DBUILD_TESTING=OFF -B build/demo >build/demo.log 2>&1 || { cat build/demo.log; exit 1; }
cmake --build build/demo --target tpx >>build/demo.log 2>&1 || { cat build/demo.log; exit 1; }
