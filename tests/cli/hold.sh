#!/bin/bash
# hold.sh TPX TESTDATA: state that tpx hold keeps in memory has the bits of the checkpoint, each rank goes to one
# process, and the memory is freed however the keeper ends. Requests that cannot be met get a reason.
set -u
tpx=$1 testdata=$2
# shellcheck source=tests/cli/holding.sh
. "$(dirname "$0")/holding.sh"
# shellcheck source=tests/cli/side_by_side.sh
. "$here/side_by_side.sh"

# Prints the processes of this test that have state in memory.
holders() {
    local process
    for process in $(own_processes); do
        [ -z "$(find "/proc/$process/fd" -lname '/memfd:tpx-*' 2>/dev/null)" ] || echo "$process"
    done
}
# contains EXPRESSION: EXPRESSION is true for the only JSON document in out, `found`.
contains() { python3 -c "import json; found = json.load(open('out')); assert $1, found" 2>err || fail "not $1"; }
# ends PID: the process ends within two minutes, and its memory is freed.
ends() {
    [ -n "$1" ] || fail "no process to wait for"
    for _ in $(seq 2400); do
        [ -e "/proc/$1/fd" ] && [ -n "$(ls "/proc/$1/fd" 2>/dev/null)" ] || return 0
        sleep 0.05
    done
    fail "process $1 still runs"
}
# nothing_left: within two minutes, there is no keeper, and no process with state in memory.
nothing_left() {
    for _ in $(seq 2400); do [ -n "$(pids)$(holders)" ] || return 0; sleep 0.05; done
    [ -z "$(pids)" ] || fail "keepers are left: $(pids)"
    [ -z "$(holders)" ] || fail "processes still have state in memory: $(holders)"
}

# The state has the bits of the checkpoint, by each path.
held() {
    cp -R "$testdata/training/dcp" training || exit 1
    runs "$tpx" hold ckpt --name job
    pid=$(pids)
    [ -n "$pid" ] || fail "no keeper"
    [ "$(holders)" = "$pid" ] || fail "'$(holders)' have the state instead of $pid"
    runs "$tpx" verify ckpt hold:job
    grep -q '^equal: 22 tensors and 2 values' out || fail "not equal"
    runs "$tpx" verify hold:job
    runs "$tpx" inspect hold:job
    grep -q 'layout *tp=2,fsdp=2 (4 ranks)' out || fail "another layout"
    runs "$tpx" reshard ckpt disk --to tp=2
    runs "$tpx" reshard hold:job memory --to tp=2 --verify
    runs diff -r disk memory
    runs mpirun -n 3 "$tpx" reshard hold:job memory3 --to tp=2
    runs diff -r disk memory3
    runs "$tpx" hold hold:job --name next --to tp=2
    runs "$tpx" verify disk hold:next
    runs "$tpx" hold disk --name same
    for rank in 0 1; do
        runs client take next $rank
        mv out next.$rank
        runs client take same $rank
        diff next.$rank out || fail "rank $rank: other bits by way of the disk"
    done
    # A state of which all ranks were taken is no longer held.
    refuses 1 "hold:next: no keeper has this name on this host; keepers: job" "$tpx" verify hold:next
    runs "$tpx" hold training --name training --to fsdp=3
    runs "$tpx" verify training hold:training
    runs "$tpx" hold hold:training --name again --to tp=2 --ranks 0
    grep -q 'holds 1 rank of tp=2' out || fail "not one rank"
    refuses 1 "no file contains" "$tpx" reshard hold:again x --to tp=1
    runs "$tpx" hold --release again
    runs "$tpx" hold --release training
    # Tensors without elements are part of the state.
    head='{"none":{"dtype":"F32","shape":[0,3],"data_offsets":[0,0]},"one":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}'
    mkdir hf
    printf "\\$(printf '%03o' ${#head})\0\0\0\0\0\0\0%s1234" "$head" >hf/model.safetensors
    runs "$tpx" hold hf --name hf --to fsdp=2
    runs "$tpx" verify hf hold:hf
    grep -q '^equal: 2 tensors' out || fail "a tensor is missing"
    runs "$tpx" hold --release hf
    # Names of held state.
    runs "$tpx" inspect hold:job --json
    contains "found['checkpoint'] == 'hold:job'"
    refuses 2 "names held state and cannot be an output" "$tpx" reshard ckpt hold:new --to tp=2
    refuses 2 "--name: the value NAME is missing" "$tpx" hold ckpt --name= --dry-run
    refused=$(client put job none 2>&1) && fail "an export to a keeper of a checkpoint was taken"
    [[ $refused == *"the keeper holds a checkpoint; export to one started with --empty"* ]] || fail "$refused"
    # One process gets each rank; if it is killed before it has mapped the rank, another one can take it.
    pid=$(pids)
    client die job 0 >out 2>err
    [ $? -eq 137 ] || fail "the client that takes rank 0 was not killed"
    refused=$(client take job 7 2>&1) && fail "rank 7 was taken"
    [ "$refused" = "refused: rank 7 is not held here (ranks 0, 1, 2, 3 are)" ] || fail "$refused"
    for k in 1 2 3 4; do client take job 0 >"take.$k" 2>&1 & done
    wait
    [ "$(grep -l '^rank 0: ' take.? | wc -l)" -eq 1 ] || { cat take.?; fail "rank 0 was taken more than once"; }
    [ "$(grep -lE '^refused: rank 0 (was|is being) taken by process' take.? | wc -l)" -eq 3 ] || { cat take.?; fail "no refusal"; }
    # A rank that is being read cannot be taken.
    client read job 6 >read.out &
    for _ in $(seq 2400); do [ -s read.out ] && break; sleep 0.05; done
    busy=$(client take job 1 2>&1) && fail "rank 1 was taken while another process read it"
    [[ $busy == "refused: rank 1 is being read by process "*"(busy)" ]] || fail "$busy"
    wait $!
    runs client take job 1
    # Misbehaving clients, even many of them, do no harm.
    runs client many job
    runs "$tpx" hold --list
    grep -q 'rank 1: taken by process' out || fail "rank 1 is not taken"
    for rank in 2 3; do runs client take job $rank; done
    ends "$pid"
    [ -z "$(ls "$XDG_RUNTIME_DIR/tpx")" ] || fail "the socket still exists"
    nothing_left
}
# Exports are complete or absent.
exported() {
    runs "$tpx" hold --name live --empty --timeout none
    pid=$(pids)
    refuses 1 "hold:live: no rank is held" "$tpx" inspect hold:live
    client put live dies >out 2>err
    [ $? -eq 137 ] || fail "the client that exports was not killed"
    refuses 1 "hold:live: no rank is held" "$tpx" inspect hold:live
    for fault in "unsealed:not in memory files of fixed size" "short:the segment is too short (expected 28 bytes, found 8)" \
        "box:document: tensor 'w': the box exceeds the tensor's shape on axis 0" "json:document: not a JSON object" \
        "dtype:document: tensor 'w': unknown dtype 'float33'" "device:unknown memory kind 'device'" "twice:tensor 'w' [0:2, 0:3]: appears twice"; do
        refused=$(client put live "${fault%%:*}" 2>&1) && fail "$fault was taken"
        [[ $refused == *"${fault#*:}"* ]] || fail "$refused"
    done
    refused=$(client put live undated 0 2 2>&1) && fail "rank 0 of 2 without an iteration was taken"
    [[ $refused == *"rank 0: 'iteration' is missing"* ]] || fail "$refused"
    refuses 1 "hold:live: no rank is held" "$tpx" inspect hold:live
    runs client put live crc
    "$tpx" verify hold:live >out 2>err; [ $? -eq 3 ] || fail "damage was not found"
    grep -q "tensor 'w' \[0:2, 0:3\]: CRC-32 is" out || fail "damage was not named"
    refuses 1 "CRC-32 is" "$tpx" reshard hold:live x --to tp=1 --verify
    runs client put live none
    runs "$tpx" verify hold:live
    runs "$tpx" inspect hold:live
    grep -q 'iteration *7' out || fail "no iteration"
    # Memory for an export is reserved for its client alone, until it disconnects.
    python3 "$here/hold_client.py" reserve live 0.6 600 >reserved 2>&1 &
    for _ in $(seq 2400); do [ -s reserved ] && break; sleep 0.05; done
    refused=$(client reserve live 0.6 0 2>&1) && fail "memory was reserved twice: $(cat reserved)"
    [[ $refused == "refused: "*" do not fit into memory: "*" are free (MemAvailable)" ]] || [[ $refused == *"(control group "* ]] || fail "$refused"
    kill $!
    for _ in $(seq 2400); do client reserve live 0.6 0 >out 2>err && break; sleep 0.05; done
    grep -q reserved out || fail "memory was not released on disconnect"
    # The state changes while it is read: readers finish reading the old state.
    client read live 6 >read.out &
    for _ in $(seq 2400); do [ -s read.out ] && break; sleep 0.05; done
    runs client put live crc
    manifest=$(cat read.out)
    runs "$tpx" verify "$manifest"
    wait $!
    # A job that continues with fewer ranks replaces all ranks of the previous one.
    for rank in 0 1 2 3; do runs client put live none $rank 4 8; done
    runs "$tpx" verify hold:live
    for rank in 0 1; do runs client put live none $rank 2 9; done
    runs "$tpx" verify hold:live
    runs "$tpx" hold --list --json
    contains "[(one['rank'], one['state'], one['iteration']) for one in found['keepers'][0]['ranks']] == [(0, 'held', 9), (1, 'held', 9)]"
    runs "$tpx" hold --release live
    ends "$pid"
    nothing_left
}
# A killed keeper leaves only its socket, and its name can be used again.
killed() {
    runs "$tpx" hold ckpt --name killed
    pid=$(pids)
    kill -9 "$pid"
    ends "$pid"
    refuses 1 "hold:killed: the keeper was killed and its memory freed" "$tpx" verify ckpt hold:killed
    runs "$tpx" hold --list
    grep -q '^nothing is held' out || fail "a killed keeper is listed"
    runs "$tpx" hold ckpt --name killed
    refuses 1 "hold:killed: state is held under this name already" "$tpx" hold ckpt --name killed
    refuses 1 "hold:killed: state is held under this name already" "$tpx" hold ckpt --name killed --dry-run
    kill "$(pids)"
    goes "$XDG_RUNTIME_DIR/tpx/killed.sock"
    nothing_left
}
# A keeper that ends does not remove the socket of a newer keeper with the same name.
newer_socket() {
    runs "$tpx" hold ckpt --name twice
    first=$(pids)
    rm "$XDG_RUNTIME_DIR/tpx/twice.sock"
    runs "$tpx" hold ckpt --name twice
    kill "$first"
    ends "$first"
    runs "$tpx" verify ckpt hold:twice
    runs "$tpx" hold --release twice
    goes "$XDG_RUNTIME_DIR/tpx/twice.sock"
    nothing_left
}
# The deadline.
deadline() {
    runs "$tpx" hold ckpt --name short --timeout 2
    ends "$(pids)"
    refuses 1 "hold:short: no keeper has this name" "$tpx" inspect hold:short
    nothing_left
}
# A keeper in the foreground.
foreground() {
    "$tpx" hold ckpt --name front --foreground >out 2>err &
    front=$!
    for _ in $(seq 2400); do [ -s out ] && break; sleep 0.05; done
    runs "$tpx" hold --release front
    wait $front || fail "--foreground: exit $?"
    nothing_left
}
# With --hold, reshard also starts a keeper that holds its output.
after_reshard() {
    runs "$tpx" reshard ckpt kept --to tp=2 --hold 60
    grep -q 'note: kept is also held in memory, as hold:kept' err || fail "no note"
    runs "$tpx" verify kept hold:kept
    refuses 1 "hold:kept: state is held under this name already" "$tpx" reshard ckpt kept2 --to tp=2 --hold 60 --hold-name kept
    [ ! -e kept2 ] || fail "an output was written that cannot be held"
    runs "$tpx" hold --release kept
    runs mpirun -n 2 "$tpx" reshard ckpt kept3 --to fsdp=2 --hold 60 --hold-name three
    runs "$tpx" verify kept3 hold:three
    runs "$tpx" hold --release three
    runs "$tpx" reshard ckpt kept5 --to tp=2 --hold none --json
    contains "found['schema'] == 'tpx.reshard/1' and found['written']"
    runs "$tpx" hold --list --json
    contains "[(one['name'], one['seconds_left']) for one in found['keepers']] == [('kept5', None)]"
    runs "$tpx" hold --release kept5
    # A keeper that cannot start: the output is in place nevertheless, as the exit status shows.
    mkdir "$XDG_RUNTIME_DIR/tpx/kept6.sock"
    refuses 4 "kept6.sock: Is a directory; kept6 is complete and in place" "$tpx" reshard ckpt kept6 --to tp=2 --hold 60
    rmdir "$XDG_RUNTIME_DIR/tpx/kept6.sock"
    runs "$tpx" verify ckpt kept6
    refuses 2 "--hold: 'x' is not a whole number of seconds from 1 to 2147483647, or none" "$tpx" reshard ckpt kept4 --to tp=2 --hold x
    nothing_left
}
# With --json.
json() {
    runs "$tpx" hold ckpt --name json --to fsdp=2 --ranks 1 --timeout none --json
    contains "found['schema'] == 'tpx.hold/1' and found['held'] and (found['name'], found['source'], found['ranks'], found['timeout']) == ('json', 'ckpt', [1], None) and found['layout']['text'] == 'fsdp=2' and found['process'] == $(pids) and found['bytes'] > 0"
    runs "$tpx" hold --list --json
    contains "found['schema'] == 'tpx.hold-list/1' and [(one['name'], one['process'], one['seconds_left']) for one in found['keepers']] == [('json', $(pids), None)] and found['keepers'][0]['ranks'][0]['bytes'] > 0"
    # On each host of a job, the command is one of its own: every task prints its results and errors.
    runs env SLURM_PROCID=1 PMIX_RANK=1 "$tpx" hold ckpt --name task1 --to fsdp=2 --ranks 1
    grep -q '^hold:task1: ' out || fail "a task other than 0 prints nothing"
    refuses 1 task1 env SLURM_PROCID=1 PMIX_RANK=1 "$tpx" hold ckpt --name task1
    runs env SLURM_PROCID=1 "$tpx" hold --list
    grep -q '^hold:task1 ' out || fail "a task other than 0 lists nothing"
    runs env SLURM_PROCID=1 "$tpx" hold --release task1
    grep -q '^released hold:task1' out || fail "a task other than 0 does not report the release"
    runs "$tpx" hold --release json --json
    contains "found == {'schema': 'tpx.hold-release/1', 'name': 'json', 'released': True}"
    runs "$tpx" hold --name empty --empty --json
    contains "found['schema'] == 'tpx.hold/1' and found['held'] and (found['name'], found['ranks'], found['bytes'], found['timeout']) == ('empty', [], 0, 300)"
    runs "$tpx" hold --list --json
    contains "found['keepers'][0]['ranks'] == [] and 0 < found['keepers'][0]['seconds_left'] <= 300"
    refuses 2 "--dry-run" "$tpx" hold --release empty --dry-run
    [ -n "$(pids)" ] || fail "--release --dry-run ended the keeper"
    runs "$tpx" hold --release empty --json
    runs "$tpx" hold --list --json
    contains "found == {'schema': 'tpx.hold-list/1', 'keepers': []}"
    nothing_left
}
# More files than the soft limit allows.
many_files() {
    (ulimit -S -n 64 && exec "$tpx" hold ckpt --name files --to fsdp=32) >out 2>err || fail "32 ranks with 64 open files: exit $?"
    (ulimit -S -n 64 && exec "$tpx" verify ckpt hold:files) >out 2>err || fail "32 ranks with 64 open files: exit $?"
    runs "$tpx" hold --release files
    nothing_left
}
# Without a usable $XDG_RUNTIME_DIR, sockets are in /tmp/tpx-UID.
no_runtime_folder() {
    for runtime in "$scratch/absent" run ""; do
        name=hold-test-$$
        XDG_RUNTIME_DIR=$runtime runs "$tpx" hold ckpt --name $name
        XDG_RUNTIME_DIR=$scratch/absent2 runs client take $name 0
        [ -e "/tmp/tpx-$(id -u)/$name.sock" ] || fail "XDG_RUNTIME_DIR='$runtime': no socket in /tmp/tpx-$(id -u)"
        XDG_RUNTIME_DIR=$runtime runs "$tpx" hold --release $name
        goes "/tmp/tpx-$(id -u)/$name.sock"
        XDG_RUNTIME_DIR=$runtime refuses 1 "hold:$name: no keeper has this name on this host" "$tpx" inspect hold:$name
    done
    nothing_left
}
# Invalid requests.
invalid_requests() {
    refuses 1 "hold:none: no keeper has this name on this host" "$tpx" inspect hold:none
    refuses 2 "'../x' cannot name held state" "$tpx" hold ckpt --name ../x
    refuses 2 "is not a list of ranks, such as 0-3,8, of tp=2 (2 ranks)" "$tpx" hold ckpt --name job --to tp=2 --ranks 1-2
    for seconds in 0 2147483648; do
        refuses 2 "--timeout: '$seconds' is not a whole number of seconds from 1 to 2147483647, or none" "$tpx" hold ckpt --name job --timeout $seconds
    done
    refuses 1 "nowhere: No such file or directory" "$tpx" hold nowhere --name job
    refuses 1 "nowhere.toml: No such file or directory" "$tpx" hold ckpt --name job --hardware nowhere.toml
    # Without a GPU; tests/gpu/hold.sh has stand-ins for some.
    refuses 1 "CUDA" env CUDA_VISIBLE_DEVICES= "$tpx" hold ckpt --name job --device cuda
    runs env CUDA_VISIBLE_DEVICES= "$tpx" hold ckpt --name auto --device auto
    grep -q 'note: the state is held in host memory: .*CUDA' err || fail "no note"
    runs "$tpx" verify ckpt hold:auto
    runs "$tpx" hold --release auto
    [ ! -e "$XDG_RUNTIME_DIR/tpx/job.sock" ] || fail "a failed run left a socket"
    runs "$tpx" hold ckpt --name job --dry-run --json
    python3 -c 'import json; found = json.load(open("out")); assert found["schema"] == "tpx.hold/1" and not found["held"] and found["ranks"] == [0, 1, 2, 3] and 0 < found["bytes"] < found["memory_free"], found' || fail "--dry-run --json"
    chmod 770 "$XDG_RUNTIME_DIR/tpx"
    refuses 1 "not a private folder of user" "$tpx" hold ckpt --name job
    chmod 700 "$XDG_RUNTIME_DIR/tpx"
    nothing_left
}
# More state than memory: a sparse file.
too_large() {
    mkdir huge
    python3 - <<'END' || fail "no sparse file"
import json, os
size = 8 << 40
header = json.dumps({"w": {"dtype": "BF16", "shape": [size // 2], "data_offsets": [0, size]}}).encode()
with open("huge/model.safetensors", "wb") as file:
    file.write(len(header).to_bytes(8, "little") + header)
    file.truncate(8 + len(header) + size)
END
    refuses 1 "huge: 8.80 TB of state and 537 MB of buffers do not fit" "$tpx" hold huge --name huge --to tp=1
    refuses 1 "are free" "$tpx" hold huge --name huge --to tp=1 --dry-run
    nothing_left
}
# Another user.
other_user() {
    stranger=(setpriv --reuid 65534 --regid 65534 --clear-groups)
    if [ "$(id -u)" -eq 0 ] && "${stranger[@]}" /usr/bin/python3 -c 'import socket; socket.send_fds' 2>/dev/null; then
        runs "$tpx" hold ckpt --name mine
        chmod 755 .. "$scratch" "$XDG_RUNTIME_DIR" "$XDG_RUNTIME_DIR/tpx"
        chmod 666 "$XDG_RUNTIME_DIR/tpx/mine.sock"
        cp "$here/hold_client.py" "$tpx" . && chmod 755 hold_client.py tpx
        refused=$("${stranger[@]}" /usr/bin/python3 hold_client.py take mine 0 2>&1) && fail "a stranger took state"
        [[ $refused == "refused: the state belongs to user 0" ]] || fail "$refused"
        refuses 1 "not a private folder of user 65534" "${stranger[@]}" ./tpx inspect hold:mine
        runs "$tpx" hold --release mine
    fi
    nothing_left
}
each=own_keepers
side_by_side 3 exported held after_reshard json invalid_requests killed newer_socket deadline foreground many_files no_runtime_folder \
    too_large other_user
echo "hold: all as it should be"
