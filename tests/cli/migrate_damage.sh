#!/bin/bash
# migrate_damage.sh TPX TESTDATA: tests tpx migrate --store and tpx inspect --store on stores of emulated hosts whose link,
# records or manifest are damaged: nothing older than what a host was switched to becomes current, and --rejoin helps.
set -u
tpx=$1 testdata=$2
here=$(cd "$(dirname "$0")" && pwd) || exit 1
# shellcheck source=scripts/mpi-env.sh
. "$here/../../scripts/mpi-env.sh"
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
trap 'exit 130' INT TERM
cd "$scratch" || exit 1
# shellcheck source=tests/cli/emulated_stores.sh
. "$here/emulated_stores.sh"
dcp=$testdata/llama-rope/dcp-fsdp2
# start ARGS...: new stores of two hosts.
start() {
    rm -rf s
    done_with 'epoch 1' 2 2x2 --import "$dcp" --iteration 7 --job j "$@"
}

# A link to a missing state, or a folder in place of the link, is replaced.
start
for damage in 'rm -r s/host1/states/j-7-1' 'rm s/host1/current && mkdir s/host1/current && touch s/host1/current/mine'; do
    eval "$damage" || exit
    done_with "host 'host1': its current state is not used" 2 2x2 --import "$dcp" --iteration 7 --to fsdp=2 --rejoin host1
    [ -L s/host1/current ] || fail "no current state: $damage"
    rm -rf "$(readlink -f s/host1/current)" || exit
    done_with "host 'host1': its current state is not used" 2 2x2 --import "$dcp" --iteration 7 --to fsdp=4
    ready 0 2x2 2
done
[ -e s/host1/staging/replaced-current-1/mine ] || fail "a folder in place of the link is lost"

# A record that cannot be read stops everything until its host rejoins; the other hosts are still shown.
for record in prepared decision; do
    start --to fsdp=4
    echo '{' >"s/host1/$record"
    for args in '' '--to fsdp=2' --dry-run; do
        # shellcheck disable=SC2086
        refused 3 "host 'host1': .*/$record: is damaged: not a JSON object; pass --rejoin host1" 2 2x2 $args
    done
    ready 3 2x2 2
    { grep -q '^host0      j-7-1$' out && grep -q "^host1 .*/$record: is damaged" out; } || fail "inspect does not show both hosts"
    done_with '' 2 2x2 --rejoin host1
    ready 0 2x2 2
    echo '{' >"s/host1/$record"
    done_with 'sent' 2 2x2 --rejoin host1 --to fsdp=2 --import "$dcp" --iteration 7
    ready 0 2x2 2
done
echo ok
