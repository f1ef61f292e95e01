#!/bin/bash
# mpi_plugin.sh TPX SOURCE TESTDATA: one binary runs without MPI, with the MPI of its build, and with another one whose
# plug-in is compiled from SOURCE; missing and wrong plug-ins and those of another MPI are refused before anything is
# written. The part with MPICH is skipped if mpicc.mpich or mpirun.mpich is missing.
set -u
tpx=$1
source=$2
ckpt=$3/llama-small/megatron-tp2pp2
# shellcheck source=scripts/mpi-env.sh
. "$(dirname "$0")/../../scripts/mpi-env.sh"
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
trap 'exit 130' INT TERM
fail() {
    echo "mpi_plugin: $*" >&2
    cat "$scratch/said" >&2
    exit 1
}

# run STATUS COMMAND...: the command ends with STATUS.
run() {
    local expected=$1 status=0
    shift
    "$@" >"$scratch/said" 2>&1 || status=$?
    [ "$status" -eq "$expected" ] || fail "exit $status instead of $expected: $*"
}

# refused TEXT COMMAND...: the command fails, prints TEXT, and writes nothing.
refused() {
    local text=$1
    shift
    run 1 "$@"
    grep -q "$text" "$scratch/said" || fail "no '$text': $*"
    [ -z "$(find "$scratch" -maxdepth 1 -name 'out*')" ] || fail "left an output: $*"
}

change() { echo "$tpx" reshard "$ckpt" "$scratch/out" --to tp=4 -q; }

# A single process and a job of one rank need no plug-in.
export TPX_MPI_PLUGIN=$scratch/none.so
# shellcheck disable=SC2046,SC2086 # one word each
for launcher in "" "mpirun -n 1"; do
    run 0 ${launcher:+$launcher} $(change)
    run 0 "$tpx" verify "$ckpt" "$scratch/out"
    rm -r "$scratch/out"
done
! ldd "$tpx" | grep -q libmpi || fail "tpx is linked with an MPI"

# Several ranks need it.
# shellcheck disable=SC2046
refused 'cannot load an MPI plug-in.*none.so: cannot open shared object file' mpirun -n 2 $(change)
echo 'int tpx_mpi_plugin_of_another_name;' >"$scratch/other.c"
"${CC:-cc}" -shared -fPIC -o "$scratch/other.so" "$scratch/other.c" || fail "no C compiler"
export TPX_MPI_PLUGIN=$scratch/other.so
# shellcheck disable=SC2046
refused 'undefined symbol: tpx_mpi_plugin' mpirun -n 2 $(change)
sed 's/= TPX_MPI_PLUGIN_VERSION/= TPX_MPI_PLUGIN_VERSION + 1/' "$source" >"$scratch/newer.c"
mpicc -shared -fPIC -I"$(dirname "$source")" -o "$scratch/newer.so" "$scratch/newer.c" || fail "mpicc failed"
export TPX_MPI_PLUGIN=$scratch/newer.so
# shellcheck disable=SC2046
refused 'newer.so: made for another version of tpx' mpirun -n 2 $(change)
unset TPX_MPI_PLUGIN

if ! command -v mpicc.mpich >/dev/null || ! command -v mpirun.mpich >/dev/null; then
    echo "mpi_plugin: passed without MPICH, which is not installed"
    exit 0
fi
mpicc.mpich -O2 -Wall -Werror -shared -fPIC -o "$scratch/libtpx-mpi-mpich.so" "$source" || fail "mpicc.mpich failed"

# The plug-in of the launcher's MPI gives the same result as that of Open MPI.
# shellcheck disable=SC2046
{
    run 0 mpirun -n 3 $(change)
    mv "$scratch/out" "$scratch/openmpi"
    export TPX_MPI_PLUGIN=$scratch/libtpx-mpi-mpich.so
    run 0 mpirun.mpich -n 3 $(change)
    run 0 diff -r "$scratch/openmpi" "$scratch/out"
    run 0 mpirun.mpich -n 3 "$tpx" verify "$ckpt" "$scratch/out"
    rm -r "$scratch/out" "$scratch/openmpi"
    refused 'the launcher started 2 ranks, but .* sees 1: .*mpich.so was compiled for another MPI' mpirun -n 2 $(change)
}
echo "mpi_plugin: passed with MPICH"
