# shellcheck shell=bash disable=SC2154
# Sourced by tests of state in memory of GPUs: holding.sh of tests/cli, with the fake CUDA runtime $CUDART.
export CUDART FAKE_GPUS=4
# shellcheck source=tests/cli/holding.sh
. "$(dirname "${BASH_SOURCE[0]}")/../cli/holding.sh"

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
    for process in $(own_processes); do
        [ -z "$(find "/proc/$process/fd" -lname '/memfd:*' 2>/dev/null)" ] || fail "process $process still has memory"
    done
}
