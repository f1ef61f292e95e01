#!/bin/bash
# hold_hosts.sh TPX TESTDATA: tpx hold joins what the keepers of several hosts hold, and holds it in another layout with the bytes that one
# host would have made. If one host fails, no host holds anything. Each process of mpirun is a host with keepers of its own.
set -u
tpx=$1 testdata=$2
# shellcheck source=tests/cli/holding.sh
. "$(dirname "$0")/holding.sh"
# shellcheck source=tests/cli/side_by_side.sh
. "$here/side_by_side.sh"
# new_hosts: hosts without keepers, for one part of this test.
new_hosts() {
    own_keepers
    # shellcheck source=tests/cli/keepers_of_hosts.sh
    . "$here/keepers_of_hosts.sh"
}
hosts() { mpirun -n "$1" ./as-host "${@:2}"; }
# keepers: the processes of this test that are keepers, or wait to become keepers.
keepers() {
    local process
    grep -lszxF "RUN=$RUN" /proc/[0-9]*/environ | cut -d / -f 3 | while read -r process; do
        [ "$(readlink "/proc/$process/cwd")" != / ] || echo "$process"
    done
}
# only N: within two minutes, N keepers are left, none of them for new state.
only() {
    for _ in $(seq 2400); do
        [ "$(keepers | wc -l)" -ne "$1" ] || [ -n "$(find "$RUN" -name 'new.sock')" ] || return 0
        sleep 0.05
    done
    fail "$(keepers | wc -l) keepers instead of $1, and $(find "$RUN" -name 'new.sock')"
}
# spread CKPT LAYOUT RANKS...: holds the state of CKPT in LAYOUT as hold:old, RANKS on each host, which may be none.
spread() {
    local host=0 ranks
    release
    for ranks in "${@:3}"; do
        [ "$ranks" = none ] || on $host runs "$tpx" hold "$1" --name old --to "$2" --ranks "$ranks" --timeout none
        host=$((host + 1))
    done
    runs "$tpx" hold "$1" --name whole --to "$2" --timeout none
}
# becomes LAYOUT RANKS... [-- OPTION...]: the hosts make what one host makes of the same state, and each gets its RANKS.
becomes() {
    local to=$1 host=0 all=() ranks
    shift
    while [ $# -gt 0 ] && [ "$1" != -- ]; do all+=("$1") && shift; done
    [ $# -eq 0 ] || shift
    runs hosts ${#all[@]} "$tpx" hold hold:old --name new --to "$to" "$@"
    cp out told && cp err noted
    runs "$tpx" hold hold:whole --name one --to "$to" "$@"
    for ranks in "${all[@]}"; do
        if [ "$ranks" = none ]; then
            [ ! -e "$RUN/$host/tpx/new.sock" ] || fail "host $host holds something"
        else
            [ "$(bytes $host new "$ranks" 2>&1)" = "$(bytes . one "$ranks" 2>&1)" ] ||
                fail "$to $*: host $host has '$(bytes $host new "$ranks" 2>&1)' instead of '$(bytes . one "$ranks" 2>&1)'"
            on $host runs "$tpx" hold --release new
        fi
        host=$((host + 1))
    done
    runs "$tpx" hold --release one
}
# moved N ROUNDS: so many bytes of tensors have moved between hosts.
moved() { grep -qF "note: $1 of tensors moved between hosts, in $2" noted || fail "not $1 in $2: $(grep 'of tensors' noted)"; }

dcp=$testdata/dcp/fsdp2-tp2

# Changes of layout, hosts and types, also to a host without keepers.
changes() {
    spread "$dcp" tp=2,fsdp=2 0,1 2,3
    becomes tp=2,fsdp=2 "0 1" "2 3"
    moved "0 B" "0 rounds"
    grep -q '^hold:new: 2 hosts hold 4 ranks of tp=2,fsdp=2 (.*) for .*, or until all ranks are taken$' told || fail "$(cat told)"
    becomes tp=4 "0 1" "2 3"
    becomes tp=1 0 none
    becomes fsdp=3 0 1 2
    grep -q "note: hold:old: no keeper has this name on .* (rank 2); ranks there get their state from other hosts" noted || fail "$(cat noted)"
    becomes tp=2,dp=2 "0 1" "2 3" -- --dtype bf16
    becomes fsdp=2 0 1 -- --dtype f16 --drop optimizer
    becomes fsdp=2 0 1 -- --dtype f8e4m3:unscaled --drop optimizer
    becomes tp=4 "0 1" "2 3" -- --dtype f8e5m2:unscaled --drop optimizer
}
# What two hosts have, both send to a third one, in equal parts.
two_senders() {
    spread "$dcp" tp=2,fsdp=2 0-3 0-3
    becomes fsdp=3 0 1 2 -- --json
    python3 -c 'import json; found = json.load(open("told")); sent = [one["sent"] for one in found["hosts"]]; assert sent[2] == 0 and abs(sent[0] - sent[1]) < 0.02 * sum(sent) and sum(sent) == found["between_hosts"]["bytes"] > 0, found' || fail "$(cat told)"
    becomes tp=4 "0 1" 2 3
}
# A host copies replicas that it has itself.
replicas() {
    spread "$dcp" dp=2,tp=2 0,1 2,3
    becomes tp=2,dp=2 "0 1" "2 3"
    moved "0 B" "0 rounds"
    becomes tp=4 "0 1" "2 3"
    moved "0 B" "0 rounds"
}
# Other layouts, optimizer state and non-tensor values.
from_dcp() {
    spread "$testdata/training/dcp" fsdp=3 0,2 1
    becomes tp=2 0 1
    becomes fsdp=5 "0 1 2" "3 4"
}
from_megatron() {
    spread "$testdata/llama-small/megatron-tp2pp2" tp=2,pp=2 0,1 2,3
    becomes tp=2 0 1
    becomes tp=4,pp=2 "0 1 2" "3 4 5" "6 7"
    becomes dp=2,zero=1 0 1
}
from_rank_files() {
    spread "$testdata/llama-opt/legacy-tp2-dp2" tp=2,dp=2,zero=1 0,1 2 3
    becomes tp=1,pp=2,dp=2,zero=1 "0 1" 2 3
    becomes tp=2,pp=2 "0 1" "2 3"
    becomes tp=2 0 1 -- --dialect hf --dtype f32
}
# Ranks named by the hosts, and the JSON result.
named_ranks() {
    spread "$dcp" tp=2,fsdp=2 0,1 2,3
    echo 'exec "$@" --ranks 2,0' >"$RUN/0.sh"
    echo 'exec "$@" --ranks 3' >"$RUN/1.sh"
    becomes tp=4 "0 2" 3
    runs hosts 2 "$tpx" hold hold:old --name new --to tp=4 --timeout none --json
    python3 - <<'END' || fail "--json: $(cat out)"
import json
found = json.load(open("out"))
assert found["schema"] == "tpx.hold/1" and found["held"] and found["ranks"] == [0, 2, 3] and found["timeout"] is None, found
assert found["source"] == "hold:old" and found["layout"]["text"] == "tp=4" and found["between_hosts"]["rounds"] == 1, found
assert [one["ranks"] for one in found["hosts"]] == [[0, 2], [3]] and all(one["process"] > 0 for one in found["hosts"]), found
assert sum(one["bytes"] for one in found["hosts"]) == found["bytes"] and found["between_hosts"]["bytes"] > 0, found
END
    for host in 0 1; do on $host runs "$tpx" hold --release new; done
    only 3
    echo 'exec "$@" --ranks 2' >"$RUN/1.sh"
    refuses 2 "--ranks: processes 0 and 1 both name rank 2; each rank is held on one host" hosts 2 "$tpx" hold hold:old --name new --to tp=4
    rm "$RUN/1.sh"
    refuses 2 "--ranks: process 1 has none; pass --ranks on every host, or on none" hosts 2 "$tpx" hold hold:old --name new --to tp=4
    rm "$RUN/0.sh"
    only 3
    # --dry-run holds nothing.
    runs hosts 2 "$tpx" hold hold:old --name new --to tp=4 --dry-run
    grep -q '^hold:old: 2 hosts would hold 4 ranks of tp=4' out || fail "$(cat out)"
    only 3
    # The new state can itself be joined and held in another layout.
    runs hosts 2 "$tpx" hold hold:old --name new --to tp=4
    runs hosts 2 "$tpx" hold hold:new --name newer --to tp=2,fsdp=2
    for rank in 0 1; do
        [ "$(bytes 0 newer $rank)" = "$(bytes 0 old $rank)" ] || fail "rank $rank has other bytes after two changes"
    done
    for host in 0 1; do on $host runs "$tpx" hold --release new && on $host runs "$tpx" hold --release newer; done
}
# If one host fails, the command ends on all hosts, and no new state is left.
one_host_fails() {
    spread "$dcp" tp=2,fsdp=2 0,1 2,3
    on 1 runs "$tpx" hold "$dcp" --name new
    refuses 1 "rank 1: hold:new: state is held under this name already" hosts 2 "$tpx" hold hold:old --name new --to tp=4
    refuses 1 "rank 1: hold:new: state is held under this name already" hosts 2 "$tpx" hold hold:old --name new --to tp=4 --dry-run
    on 1 runs "$tpx" hold --release new
    only 3
    echo 'exec "$@" --dtype f16' >"$RUN/1.sh"
    refuses 1 "the plan" hosts 2 "$tpx" hold hold:old --name new --to tp=4
    rm "$RUN/1.sh"
    only 3
    refuses 2 "start one process per host" mpirun -n 2 "$tpx" hold hold:old --name new --to tp=4
    refuses 2 "--foreground" hosts 2 "$tpx" hold hold:old --name new --to tp=4 --foreground
    refuses 1 "elements from another host cannot be cast from" hosts 2 "$tpx" hold hold:old --name new --to tp=4 --dtype f64
    on 1 runs "$tpx" hold --release old
    refuses 1 "; no keeper has this name on " hosts 2 "$tpx" hold hold:old --name new --to tp=4
    grep -q "no file contains" err || fail "$(cat err)"
    on 0 runs "$tpx" hold --release old
    refuses 1 "hold:old: no keeper has this name on " hosts 2 "$tpx" hold hold:old --name new --to tp=4
    only 1
    spread "$dcp" tp=2,fsdp=2 0,1 2,3
    kill -KILL "$(on 1 pids)"
    refuses 1 "; the keeper of " hosts 2 "$tpx" hold hold:old --name new --to tp=4
    only 2
}
# big: makes a checkpoint with 160 MB.
big() {
    mkdir big
    python3 - <<'END' || fail "no checkpoint"
import json, random
random.seed(1)
size = 10_000_000
header = json.dumps({f"w{k}": {"dtype": "F32", "shape": [2, size // 8], "data_offsets": [k * size, (k + 1) * size]} for k in range(16)}).encode()
with open("big/model.safetensors", "wb") as file:
    file.write(len(header).to_bytes(8, "little") + header)
    for _ in range(16):
        file.write(random.randbytes(size))
END
    runs "$tpx" hold big --name whole --to fsdp=2 --timeout none
}
# swapped: each host holds the half of the checkpoint, as hold:old, that the other host gets.
swapped() {
    local host
    big
    on 0 runs "$tpx" hold big --name first --to fsdp=2
    for host in 0 1; do echo "exec \"\$@\" --ranks $((1 - host))" >"$RUN/$host.sh"; done
    runs hosts 2 "$tpx" hold hold:first --name old --to fsdp=2 --timeout none
    rm "$RUN/0.sh" "$RUN/1.sh"
    on 0 runs "$tpx" hold --release first
}
# Parts that record neither a save nor an iteration are refused. A state that several hosts made together records a save.
without_save() {
    local host
    big
    for host in 0 1; do on $host runs "$tpx" hold big --name apart --to fsdp=2 --ranks $host; done
    refuses 1 "record neither the same save nor an iteration" hosts 2 "$tpx" hold hold:apart --name old --to fsdp=2
    on 1 runs "$tpx" hold --release apart
    on 0 runs "$tpx" hold --release apart
}
# All of 160 MB move, in several rounds.
two_rounds() {
    swapped
    becomes fsdp=2 0 1
    moved "160 MB" "2 rounds"
    # A cast fails on one host: of elements from another host, and of its own elements.
    refuses 1 "does not fit bf16" hosts 2 "$tpx" hold hold:old --name new --to fsdp=4 --dtype bf16
    refuses 1 "does not fit bf16, whose largest value is 3.3895e38" hosts 2 "$tpx" hold hold:old --name new --to fsdp=2 --dtype bf16
    only 3
    # If one host has no room, here for files of more than 123 MB, the command ends on all hosts.
    echo 'ulimit -f 240000; exec "$@"' >"$RUN/1.sh"
    refuses 1 "rank 1: " hosts 2 "$tpx" hold hold:old --name new --to dp=2
    grep -q "File too large" err || fail "$(cat err)"
    rm "$RUN/1.sh"
    only 3
}
# ranks_1: the processes that mpirun has started as rank 1.
ranks_1() {
    grep -lszxF "RUN=$RUN" /proc/[0-9]*/environ | cut -d / -f 3 | while read -r process; do
        grep -qszxF "OMPI_COMM_WORLD_RANK=1" "/proc/$process/environ" || continue
        [ "$(readlink "/proc/$process/cwd")" = / ] || echo "$process"
    done
}
# ends SIGNAL DELAY: runs the command, and sends SIGNAL to rank 1 after DELAY.
ends() {
    local job left=3
    hosts 2 "$tpx" hold hold:old --name new --to fsdp=2 >out 2>err &
    job=$!
    sleep "$2"
    # shellcheck disable=SC2046 # processes
    kill "-$1" $(ranks_1) 2>kill.err
    wait $job
    status=$?
    [ "$status" -ne 0 ] || left=5
    # Rank 1 may have been killed after both keepers began to serve.
    [ "$1" != KILL ] || for _ in $(seq 20); do [ "$(keepers | wc -l)" -ne 5 ] || left=5; sleep 0.05; done
    [ $left -eq 5 ] || only 3
    [ "$(keepers | wc -l)" -eq $left ] || fail "SIG$1 after $2 s: exit $status, and $(keepers | wc -l) keepers"
    [ $left -eq 3 ] || for host in 0 1; do on $host runs "$tpx" hold --release new; done
    only 3
}
# The same while a rank is killed or asked to stop at various moments: either both hosts hold the new state or none does.
signaled() {
    local delay status
    swapped
    for delay in 0.1 0.2 0.3 0.4 0.5 0.7 0.9 1.2; do ends "$1" $delay; done
    for status in 0 1; do [ -n "$(bytes . whole $status)" ] || fail "the old state is gone"; done
    release
    only 0
}
killed() { signaled KILL; }
stopped() { signaled TERM; }
each=new_hosts
side_by_side 3 killed stopped changes two_rounds from_megatron from_rank_files one_host_fails named_ranks two_senders replicas from_dcp without_save
echo "hold_hosts: all as it should be"
