# shellcheck shell=bash disable=SC2154
# Sourced by tests of state in memory of GPUs: holding.sh of tests/cli, with the fake CUDA runtime $CUDART.
export CUDART FAKE_GPUS=4
# shellcheck source=tests/cli/holding.sh
. "$(dirname "${BASH_SOURCE[0]}")/../cli/holding.sh"

# keeper_refuses TEXT ARGUMENT...: hold_client.py ends with status 1 and TEXT.
keeper_refuses() {
    local text=$1 got
    shift
    client "$@" >out 2>err
    got=$?
    [ $got -eq 1 ] || fail "client $*: exit $got instead of 1"
    grep -qF -- "$text" out err || fail "client $*: not '$text'"
}
# nothing_left: no keeper, no socket, and no process of this test with memory of a GPU.
nothing_left() {
    [ -z "$(pids)$(ls "$XDG_RUNTIME_DIR/tpx")" ] || fail "a keeper is left"
    local process
    for process in $(own_processes); do
        [ -z "$(find "/proc/$process/fd" -lname '/memfd:*' 2>/dev/null)" ] || fail "process $process still has memory"
    done
}
