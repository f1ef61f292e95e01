# shellcheck shell=bash disable=SC2154
# Sourced by tests of state in memory of GPUs ($tpx, $testdata, and $CUDART, which stands in for CUDA's runtime): makes an empty folder
# the working directory, which is removed at the end with all keepers, with a checkpoint in ckpt.
export CUDART FAKE_GPUS=4
here=$(cd "$(dirname "$0")" && pwd)
name=$(basename "$0" .sh)
python3 -c 'import os, socket; os.memfd_create; socket.send_fds' 2>/dev/null || { echo "skipped: no Python 3.9 here"; exit 77; }
# shellcheck source=scripts/mpi-env.sh
. "$here/../../scripts/mpi-env.sh"
unset OMPI_COMM_WORLD_RANK PMIX_RANK PMI_RANK SLURM_PROCID SLURM_JOB_ID
scratch=$(mktemp -d) || exit 1
export XDG_RUNTIME_DIR=$scratch/run
mkdir -m 700 "$XDG_RUNTIME_DIR" || exit 1
cd "$scratch" || exit 1
cp -R "$testdata/dcp/fsdp2-tp2" ckpt || exit 1

pids() { "$tpx" hold --list --json 2>/dev/null | grep -o '"process":[0-9]*' | cut -d : -f 2; }
end() {
    for pid in $(pids); do kill "$pid" 2>/dev/null; done
    rm -rf "$scratch"
}
trap end EXIT
fail() {
    echo "gpu $name: $*" >&2
    cat out err >&2
    exit 1
}
client() { python3 "$here/../cli/hold_client.py" "$@"; }
runs() { "$@" >out 2>err || fail "$*: exit $?"; }
# refuses EXIT TEXT COMMAND...: it fails with that status and TEXT.
refuses() {
    local want=$1 text=$2
    shift 2
    "$@" >out 2>err
    local got=$?
    [ $got -eq "$want" ] || fail "$*: exit $got instead of $want"
    grep -qF -- "$text" err out || fail "$*: not '$text'"
}
# nothing_left: no keeper, no socket, and no process of this test with memory of a GPU.
nothing_left() {
    [ -z "$(pids)$(ls "$XDG_RUNTIME_DIR/tpx")" ] || fail "a keeper is left"
    local process
    for process in /proc/[0-9]*; do
        tr '\0' '\n' 2>/dev/null <"$process/environ" | grep -qxF "XDG_RUNTIME_DIR=$XDG_RUNTIME_DIR" || continue
        [ -z "$(find "$process/fd" -lname '/memfd:*' 2>/dev/null)" ] || fail "process ${process#/proc/} still has memory"
    done
}
# goes PATH: it is removed within 5 s.
goes() {
    for _ in $(seq 100); do [ -e "$1" ] || return 0; sleep 0.05; done
    fail "$1 still exists"
}
