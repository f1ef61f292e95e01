# shellcheck shell=bash disable=SC2154
# Sourced by tests of state that tpx ($tpx) holds in memory: changes to a new folder, which is removed at the end with
# all keepers, and puts a checkpoint of $testdata in ckpt.
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
python=$(python3 -c 'import os, socket, sys; os.memfd_create; socket.send_fds; print(os.path.dirname(sys.executable))' 2>/dev/null) ||
    { echo "skipped: Python 3.9 or later is missing"; exit 77; }
PATH=$python:$PATH  # tests start Python often, and a wrapper such as that of pyenv takes longer than Python itself
# shellcheck source=scripts/mpi-env.sh
. "$here/../../scripts/mpi-env.sh"
unset OMPI_COMM_WORLD_RANK PMIX_RANK PMI_RANK SLURM_PROCID SLURM_JOB_ID
scratch=$(mktemp -d) || exit 1
export XDG_RUNTIME_DIR=$scratch/run
mkdir -m 700 "$XDG_RUNTIME_DIR" || exit 1
cd "$scratch" || exit 1
cp -R "$testdata/dcp/fsdp2-tp2" ckpt || exit 1

# The processes that this test has started, or this part of it.
own_processes() { grep -lszxF "XDG_RUNTIME_DIR=$XDG_RUNTIME_DIR" /proc/[0-9]*/environ | cut -d / -f 3; }
# Finds the keepers by the sockets on which they listen.
pids() { "$tpx" hold --list --json 2>/dev/null | grep -o '"process":[0-9]*' | cut -d : -f 2; }
end() {
    for pid in $(pids); do kill "$pid" 2>/dev/null; done
    rm -rf "$scratch"
}
trap end EXIT
# own_keepers: gives a part of a test, in its folder $scratch, ckpt and keepers of its own; see side_by_side.sh.
own_keepers() {
    cp -R ../ckpt . || exit 1
    export XDG_RUNTIME_DIR=$scratch/run
    mkdir -m 700 "$XDG_RUNTIME_DIR" || exit 1
    trap end EXIT
}
fail() {
    echo "$(basename "$0" .sh): $*" >&2
    cat out err >&2
    exit 1
}
client() { python3 "$here/hold_client.py" "$@"; }
# runs COMMAND...: the command must succeed.
runs() { "$@" >out 2>err || fail "$*: exit $?"; }
# goes PATH: PATH must be removed within two minutes.
goes() {
    for _ in $(seq 2400); do [ -e "$1" ] || return 0; sleep 0.05; done
    fail "$1 still exists"
}
# refuses EXIT TEXT COMMAND...: COMMAND fails with status EXIT and one line that contains TEXT.
refuses() {
    local want=$1 text=$2 got
    shift 2
    "$@" >out 2>err
    got=$?
    [ $got -eq "$want" ] || fail "$*: exit $got instead of $want"
    grep -qF -- "$text" err || fail "$*: not '$text'"
    [ "$(grep '^tpx: ' err | grep -vc '^tpx: note: ')" -eq 1 ] || fail "$*: not one line"
}
