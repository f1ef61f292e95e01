# shellcheck shell=bash disable=SC2154
# Sourced by tests of tpx migrate --store: changes to a new folder ($scratch, unless the test has set it), which is
# removed at the end, and runs tpx ($tpx) on emulated hosts, whose stores are s/HOST.
# shellcheck source=scripts/mpi-env.sh
. "$(dirname "$0")/../../scripts/mpi-env.sh"
scratch=${scratch:-$(mktemp -d)}
trap 'rm -rf "$scratch"' EXIT
trap 'exit 130' INT TERM
cd "$scratch" || exit 1
fail() {
    echo "$(basename "$0" .sh): $*" >&2
    cat err out >&2
    exit 1
}
# migrate PROCESSES HOSTS ARGS...: runs tpx migrate; leaves its exit status in $status.
migrate() {
    mpirun -n "$1" "$tpx" migrate --store 's/{host}' --emulate --hosts "$2" "${@:3}" >out 2>err
    status=$?
}
# done_with TEXT PROCESSES HOSTS ARGS...: tpx migrate succeeds, and prints TEXT.
done_with() {
    migrate "${@:2}"
    [ "$status" -eq 0 ] || fail "status $status: ${*:2}"
    grep -q -- "$1" out err || fail "does not print '$1': ${*:2}"
}
# refused STATUS TEXT PROCESSES HOSTS ARGS...: tpx migrate exits with STATUS and one line with TEXT, and changes nothing.
refused() {
    find s -not -path '*/staging*' 2>/dev/null | sort >before
    migrate "${@:3}"
    { [ "$status" -eq "$1" ] && grep -q -- "$2" err; } || fail "not refused with status $1 and '$2', but $status: ${*:3}"
    [ "$(grep '^tpx:' err | grep -vc 'tpx: note:')" -eq 1 ] || fail "more than one line: ${*:3}"
    find s -not -path '*/staging*' 2>/dev/null | sort >after
    cmp -s before after || fail "something was left or removed: ${*:3}"
}
# whole CKPT HOST...: the current states of these hosts together equal CKPT.
whole() {
    local host
    rm -rf merged && mkdir merged || exit
    for host in "${@:2}"; do cp -RL "s/$host/current/." merged/ || fail "$host has no current state"; done
    rm merged/manifest.json
    "$tpx" verify "$1" merged >verified 2>&1 || { cat verified >&2; fail "the state of ${*:2} is not that of $1"; }
    [ -z "$(find s -path '*/staging/*')" ] || fail "something is left in staging"
}
# ready STATUS HOSTS PROCESSES: tpx inspect exits with STATUS.
ready() {
    mpirun -n "$3" "$tpx" inspect --store 's/{host}' --hosts "$2" --emulate >out 2>err
    status=$?
    [ "$status" -eq "$1" ] || fail "inspect ends with $status instead of $1"
}
