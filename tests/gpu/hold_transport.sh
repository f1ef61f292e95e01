#!/bin/bash
# hold_transport.sh TPX TESTDATA CUDART: tpx hold moves state between GPUs of several hosts by NCCL, or by MPI and pinned memory, with fake
# CUDA (CUDART) and NCCL libraries. Each transport makes the same bytes as a checkpoint on disk. If a call fails, or a process dies, no host holds new
# state, and nothing is left. Each process of mpirun is a host with keepers of its own.
set -u
tpx=$1 testdata=$2 CUDART=$3
# shellcheck source=tests/gpu/holding.sh
. "$(dirname "$0")/holding.sh"
# shellcheck source=tests/cli/side_by_side.sh
. "$here/side_by_side.sh"
# new_hosts: hosts without keepers, for one part of this test.
new_hosts() {
    own_keepers
    # shellcheck source=tests/cli/keepers_of_hosts.sh
    . "$here/keepers_of_hosts.sh"
    export FAKE_NAME=transport-$BASHPID
}
hosts() { timeout 120 mpirun -n "$1" ./as-host "${@:2}"; }
# processes: prints the processes of this test that have GPU memory, are keepers, or wait to become keepers.
processes() {
    local process
    grep -lszxF "RUN=$RUN" /proc/[0-9]*/environ | cut -d / -f 3 | while read -r process; do
        [ "$(readlink "/proc/$process/cwd")" != / ] && [ -z "$(find "/proc/$process/fd" -lname '/memfd:*' 2>/dev/null)" ] || echo "$process"
    done
}
# only N: within two minutes, N such processes are left, no socket of new state, and no memory of NCCL.
only() {
    local _
    for _ in $(seq 2400); do
        [ "$(processes | wc -l)" -ne "$1" ] || [ -n "$(find "$RUN" -name new.sock)$(find /dev/shm -name "*$FAKE_NAME-*" 2>/dev/null)" ] || return 0
        sleep 0.05
    done
    fail "$(processes | wc -l) processes instead of $1; $(find "$RUN" -name new.sock) $(find /dev/shm -name "*$FAKE_NAME-*")"
}
# spread CKPT LAYOUT RANKS...: holds the state of CKPT in LAYOUT as hold:old on GPUs, RANKS on each host, which may be none.
spread() {
    local host=0 ranks
    release
    for ranks in "${@:3}"; do
        [ "$ranks" = none ] || on $host runs "$tpx" hold "$1" --name old --to "$2" --ranks "$ranks" --timeout none --device cuda
        host=$((host + 1))
    done
}
# says EXPRESSION...: the Python expressions are true for `between_hosts` and `hosts` in the JSON result of the command.
says() {
    python3 - "$@" <<'END' || fail "not as it should say"
import json, sys
found = json.load(open("told"))
for text in sys.argv[1:]:
    assert eval(text, {"between": found["between_hosts"], "hosts": found["hosts"]}), (text, found)
END
}
# by_disk CKPT LAYOUT RESHARD-OPTION...: prints the digests of all ranks of CKPT in LAYOUT, as made by way of a checkpoint on disk.
by_disk() {
    local known=known-${*//[^a-z0-9=,-]/_} places=() rank
    if [ ! -e "$known" ]; then
        rm -rf disk
        runs "$tpx" reshard "$1" disk --to "$2" "${@:3}"
        runs "$tpx" hold disk --name one --to "$2"
        for rank in $(seq 0 $(($("$tpx" hold --list --json | grep -o '"rank":' | wc -l) - 1))); do places+=("$XDG_RUNTIME_DIR:$rank"); done
        runs client collect one "${places[@]}"
        mv out "$known"
        goes "$RUN/tpx/one.sock"
    fi
    cat "$known"
}
# becomes CKPT LAYOUT RANKS... [-- OPTION...]: the hosts make the same bytes as a checkpoint on disk, and each gets its RANKS on GPUs.
becomes() {
    local ckpt=$1 to=$2 host=0 all=() places=() cast=() ranks rank word
    shift 2
    while [ $# -gt 0 ] && [ "$1" != -- ]; do all+=("$1") && shift; done
    [ $# -eq 0 ] || shift
    runs hosts ${#all[@]} "$tpx" hold hold:old --name new --to "$to" --json "$@"
    cp out told && cp err noted
    for word in "$@"; do case $word in --dtype | --drop | bf16 | f16 | f32 | *:unscaled | optimizer) cast+=("$word") ;; esac; done
    by_disk "$ckpt" "$to" ${cast[@]+"${cast[@]}"} >all_ranks || fail "no state by way of the disk"
    for ranks in "${all[@]}"; do
        [ "$ranks" != none ] || [ ! -e "$RUN/$host/tpx/new.sock" ] || fail "host $host holds something"
        [ "$ranks" = none ] || for rank in $ranks; do
            places+=("$RUN/$host:$rank")
            grep "^rank $rank: " all_ranks || fail "rank $rank is not among those by way of the disk"
        done
        host=$((host + 1))
    done >expected
    runs client collect new "${places[@]}"
    diff expected out || fail "$to $*: other bits than from disk"
    for host in "${!all[@]}"; do [ "${all[host]}" = none ] || goes "$RUN/$host/tpx/new.sock"; done
}
# refuses EXIT TEXT COMMAND...: COMMAND fails with status EXIT and one line that has TEXT.
refuses() {
    local want=$1 text=$2 got
    shift 2
    "$@" >out 2>err
    got=$?
    [ $got -eq "$want" ] || fail "$*: exit $got instead of $want"
    grep -qF -- "$text" err || fail "$*: not '$text'"
    [ "$(grep '^tpx: ' err | grep -vc '^tpx: note: ')" -eq 1 ] || fail "$*: not one line"
}
cuda=(--device cuda)

# faulty HOST FAULT [VARIABLE=VALUE...]: the calls in FAULT fail on HOST, and on no other host.
faulty() {
    rm -f "$RUN"/?.sh
    echo "export FAKE_FAULT=$2 ${*:3}; exec \"\$@\"" >"$RUN/$1.sh"
}

# drawn SEED...: layouts, hosts, types and transports drawn at random; each case can be repeated by its seed.
drawn() {
    for seed in "$@"; do
        RANDOM=$seed
        layouts=("tp=4:0,1:2,3:0 1:2 3" "fsdp=4:0,3:1,2:0 1:2 3" "tp=2,fsdp=2:0:1,2,3:0 1:2 3" "fsdp=3:0,2:1:0 1:2" "tp=2:0:1:0:1" "fsdp=2:1:0:0:1" "pp=2:0:1:0:1")
        IFS=: read -r from source0 source1 _ _ <<<"${layouts[RANDOM % ${#layouts[@]}]}"
        IFS=: read -r to _ _ target0 target1 <<<"${layouts[RANDOM % ${#layouts[@]}]}"
        types=("" "--dtype f16" "--dtype f32" "--drop optimizer")
        read -ra more <<<"${types[RANDOM % 4]}"
        transport=nccl
        [ $((RANDOM % 3)) -ne 0 ] || transport=mpi  # not in a subshell, where RANDOM has another seed
        echo "seed $seed: $from to $to ${more[*]} by $transport"
        spread ckpt "$from" "$source0" "$source1"
        becomes ckpt "$to" "$target0" "$target1" -- --device cuda --transport "$transport" ${more[@]+"${more[@]}"}
        says "between['rounds'] == 0 or between['transport'] == '$transport'" "all(one['gpus'] for one in hosts)" \
            "sum(one['links']['rail'] + one['links']['network'] for one in hosts) == between['bytes']"
        only 2
    done
}
drawn_first() { drawn 1 2 3 4; }
drawn_last() { drawn 5 6 7 8; }
# Three hosts, one of them new, and state that returns to one host, where it is verified.
three_hosts() {
    spread ckpt tp=2,fsdp=2 0,1 2,3
    becomes ckpt fsdp=5 "0 1" "2 3" 4 -- "${cuda[@]}"
    says "between['transport'] == 'nccl' and between['nccl_bytes'] == between['bytes'] > 0 and 'reason' not in between"
    grep -q "of tensors moved between hosts, in 1 round by NCCL" noted || fail "$(cat noted)"
    grep -q "note: links that carried tensors: .* within a GPU, .* by PCIe, .* across rails$" noted || fail "$(cat noted)"
    export FAKE_NVLINKS=0-1
    becomes ckpt tp=4 "0 1" "2 3" -- "${cuda[@]}"
    says "all(one['links']['nvlink'] > 0 and one['links']['pcie'] == 0 for one in hosts)"
    unset FAKE_NVLINKS
    FAKE_NO_PEERS=0-1 becomes ckpt tp=4 "0 1" "2 3" -- "${cuda[@]}"
    says "all(one['links']['host_memory'] > 0 and one['links']['nvlink'] == one['links']['pcie'] == 0 for one in hosts)"
    becomes ckpt tp=4 "0 1" "2 3" -- "${cuda[@]}" --dtype f8e4m3:unscaled --drop optimizer
    runs hosts 2 "$tpx" hold hold:old --name new --to tp=4 --device cuda --transport nccl
    runs hosts 2 "$tpx" hold hold:new --name back --to tp=1 --device cuda --transport nccl
    on 0 runs "$tpx" verify ckpt hold:back
    grep -q '^equal: ' out || fail "not equal"
    for host in 0 1; do on $host runs "$tpx" hold --release new; done
    on 0 runs "$tpx" hold --release back
    only 2
}
# Of replicas on two hosts, the one on the same rail is sent; without one, both hosts send equal parts. A GPU without memory
# for lists of copies sends through host memory.
replicas() {
    spread ckpt dp=2 0 none
    on 1 runs "$tpx" hold ckpt --name old --to dp=2 --ranks 1 --timeout none --device cuda --rank-gpus 1
    for gpu in 0 1 2; do
        echo "exec \"\$@\" --rank-gpus $gpu" >"$RUN/2.sh"
        becomes ckpt dp=3 0 1 2 -- "${cuda[@]}"
        case $gpu in
            2) says "hosts[2]['links']['rail'] == 0 < hosts[2]['links']['network'] == between['bytes'] and abs(hosts[0]['sent'] - hosts[1]['sent']) < 0.02 * between['bytes']" ;;
            *) says "hosts[2]['links']['network'] == 0 < hosts[2]['links']['rail'] == between['bytes'] == hosts[$gpu]['sent']" ;;
        esac
    done
    echo 'export FAKE_MEMORY=7000000; exec "$@" --rank-gpus 1' >"$RUN/0.sh"
    echo 'exec "$@" --rank-gpus 0' >"$RUN/2.sh"
    refuses 1 "rank 0: --transport nccl: GPU 0: sending needs " hosts 3 "$tpx" hold hold:old --name new --to dp=3 --device cuda --transport nccl
    echo 'export FAKE_MEMORY=7000000 FAKE_FAULT=launch_copies; exec "$@" --rank-gpus 1' >"$RUN/0.sh"
    for transport in auto mpi; do
        becomes ckpt dp=3 0 1 2 -- "${cuda[@]}" --transport $transport
        says "hosts[2]['links']['rail'] == 0 < hosts[2]['links']['network'] == between['bytes'] and hosts[0]['sent'] > 0"
        grep -q "(rank 0): GPU 0 has no room for .* of lists of copies beside 0 B of new state; other hosts get its tensors through host memory" noted || fail "$(cat noted)"
    done
    rm "$RUN"/?.sh
    only 2
}
# Messages from host memory move by MPI, all others by NCCL; --transport nccl refuses such messages.
from_host_memory() {
    spread ckpt fsdp=4 0,1 none
    on 1 runs "$tpx" hold ckpt --name old --to fsdp=4 --ranks 2,3 --timeout none
    becomes ckpt tp=4 "0 1" "2 3" -- "${cuda[@]}"
    says "between['transport'] == 'nccl' and 0 < between['nccl_bytes'] < between['bytes']"
    refuses 1 "--transport nccl: $(hostname) (rank 1): state that moves between hosts is in host memory" hosts 2 "$tpx" hold hold:old --name new --to tp=4 --device cuda --transport nccl
    only 2
    spread ckpt fsdp=4 0,1 2,3
    becomes ckpt tp=4 "0 1" "2 3" -- --device host
    says "between['transport'] == 'mpi' and between['reason'] == 'no tensors move between GPUs of different hosts'"
    becomes ckpt tp=4 "0 1" "2 3" -- "${cuda[@]}" --transport mpi
    says "between['transport'] == 'mpi' and between['reason'] == '--transport mpi' and between['nccl_bytes'] == 0"
    grep -q "round by MPI, not NCCL: --transport mpi" noted || fail "$(cat noted)"
    runs hosts 2 "$tpx" hold hold:old --name new --to tp=4 --device cuda --dry-run --json
    cp out told
    [ "$(grep -c "note: $(hostname): GPU [01]: needs .* for new state and .* for lists of copies and messages, beside .* of old state; 17.2 GB are free" err)" -eq 4 ] ||
        fail "no notes of the memory: $(cat err)"
    says "between['transport'] == 'nccl' and [need['direct'] for one in hosts for need in one['needs']] == [True] * 4" \
        "all(need['old'] > 0 and need['new'] > 0 and need['staging'] > 1 << 20 for one in hosts for need in one['needs'])"
    only 2
}
# A host without the library: MPI instead, or a refusal.
no_library() {
    spread ckpt fsdp=4 0,1 2,3
    mkdir broken && echo x >broken/libnccl.so.2
    # shellcheck disable=SC2016 # expands in the script
    echo "export LD_LIBRARY_PATH=$PWD/broken:\$LD_LIBRARY_PATH; exec \"\$@\"" >"$RUN/1.sh"
    becomes ckpt tp=4 "0 1" "2 3" -- "${cuda[@]}"
    says "between['transport'] == 'mpi' and '(rank 1): NCCL: ' in between['reason'] and 'libnccl.so.2' in between['reason']"
    refuses 1 "--transport nccl: $(hostname) (rank 1): NCCL: " hosts 2 "$tpx" hold hold:old --name new --to tp=4 --device cuda --transport nccl
    rm "$RUN/1.sh"
    only 2
}
# Invalid uses of --transport.
invalid_uses() {
    spread ckpt fsdp=4 0,1 2,3
    refuses 2 "--transport ipc: copies only within a host" hosts 2 "$tpx" hold hold:old --name new --to tp=4 --device cuda --transport ipc
    refuses 2 "--transport nccl: requires --device cuda or auto" hosts 2 "$tpx" hold hold:old --name new --to tp=4 --transport nccl
    refuses 2 "--transport mpi: requires hold:NAME and one process on each of several hosts" "$tpx" hold ckpt --name new --transport mpi
    refuses 2 "--transport ipc: requires --device cuda or auto" "$tpx" hold ckpt --name new --transport ipc
    refuses 1 "--transport ipc: ckpt is not in GPU memory" "$tpx" hold ckpt --name new --device cuda --transport ipc
    only 2
}
# A value that does not fit, on its way to another host or between GPUs of one host: the error names the tensor.
overflows() {
    for row in 6 1; do
        rm -rf large
        python3 - $row <<'END' || fail "no checkpoint"
import json, os, struct, sys
os.mkdir("large")
values = [float(k) for k in range(16)]
values[2 * int(sys.argv[1]) + 1] = 1e30
header = json.dumps({"w": {"dtype": "F32", "shape": [8, 2], "data_offsets": [0, 64]}}).encode()
with open("large/model.safetensors", "wb") as file:
    file.write(len(header).to_bytes(8, "little") + header + struct.pack("<16f", *values))
END
        spread large fsdp=2 0,1 none
        for transport in nccl mpi; do
            text="tensor 'w': 1e+30 at [6, 1] does not fit f16, whose largest value is 65504"
            [ $row = 6 ] || text="tensor 'w': the value of type f32 at [1, 1] does not fit f16"
            refuses 1 "$text" hosts 2 "$tpx" hold hold:old --name new --to fsdp=2 --dtype f16 --device cuda --transport $transport
            only 1
        done
    done
}
# Faults while the GPUs connect: MPI instead, or a refusal before anything moves.
connecting() {
    local fault host call
    spread ckpt fsdp=4 0,1 2,3
    for fault in "$@"; do
        host=${fault%%:*} call=${fault#*:}
        faulty "$host" "$call"
        call=${call%%,*}
        [ "$call" != ncclAsyncError ] || call=ncclCommInitRankConfig:
        refuses 1 "--transport nccl: rank $host: " hosts 2 "$tpx" hold hold:old --name new --to tp=4 --device cuda --transport nccl
        grep -q "$call" err || fail "$fault: another error"
        only 2
        becomes ckpt tp=4 "0 1" "2 3" -- "${cuda[@]}"
        says "between['transport'] == 'mpi' and between['reason'].startswith('rank $host: ') and '$call' in between['reason']"
        only 2
    done
}
connecting_first() { connecting 0:ncclGetUniqueId 0:ncclGroupStart 1:ncclGroupStart 0:ncclCommInitRankConfig 1:ncclCommInitRankConfig; }
connecting_last() { connecting 1:ncclGroupEnd 1:ncclCommGetAsyncError 0:ncclAsyncError 1:ncclCommInitRankConfig,ncclCommAbort; }

# swapped NAME SIZE: each host holds on its GPU 0, as hold:old, the half of 16 tensors of SIZE bytes each, a new checkpoint NAME, that the
# other host gets.
swapped() {
    local host
    python3 - "$1" "$2" <<'END' || fail "no checkpoint"
import json, os, random, sys
name, size = sys.argv[1], int(sys.argv[2])
os.mkdir(name)
random.seed(1)
header = json.dumps({f"w{k}": {"dtype": "F32", "shape": [2, size // 8], "data_offsets": [k * size, (k + 1) * size]} for k in range(16)}).encode()
with open(f"{name}/model.safetensors", "wb") as file:
    file.write(len(header).to_bytes(8, "little") + header)
    for _ in range(16):
        file.write(random.randbytes(size))
END
    on 0 runs "$tpx" hold "$1" --name first --to fsdp=2
    for host in 0 1; do echo "exec \"\$@\" --ranks $((1 - host))" >"$RUN/$host.sh"; done
    runs hosts 2 "$tpx" hold hold:first --name old --to fsdp=2 --timeout none --device cuda --transport mpi
    on 0 runs "$tpx" hold --release first
    rm "$RUN"/?.sh
    only 2
}
# still_held: the hosts have the old state.
still_held() {
    local host
    for host in 0 1; do on $host client bytes old $((1 - host)) >out || fail "the old state is gone"; done
}
# 160 MB move in two rounds of at most 64 MiB each way.
two_rounds() {
    swapped big 10000000
    becomes big fsdp=2 0 1 -- "${cuda[@]}" --transport nccl
    says "between['bytes'] == 160000000 and between['rounds'] == 2 and between['transport'] == 'nccl'"
    becomes big fsdp=2 0 1 -- "${cuda[@]}" --transport mpi
    says "between['bytes'] == 160000000 and between['rounds'] == 2 and between['transport'] == 'mpi'"
    only 2
    still_held
}
# In little memory of GPUs, 20 MB move in two rounds: each GPU needs 10 MB for new state and 7.5 MB for lists, and has 9 MB for each message.
small_rounds() {
    swapped small 1250000
    export FAKE_MEMORY=35500000
}
stops() { refuses 1 "$1" hosts 2 "$tpx" hold hold:old --name new --to fsdp=2 --device cuda "${@:2}"; only 2; }
# failing HOST: each call that fails on this host, at the first or a later time, ends the command on all hosts.
failing() {
    local host=$1 fault call text
    small_rounds
    for fault in ncclGroupStart:1 ncclGroupStart:2 ncclSend:0 ncclSend:1 ncclRecv:0 ncclRecv:1 ncclGroupEnd:1 ncclGroupEnd:2 ncclAsyncError:5 cudaEventRecord:0 cudaEventQuery:1 launch_copies:0 launch_copies:1 launch_crcs:0 cudaIpcOpenMemHandle:0; do
        call=${fault%%:*}
        faulty "$host" "$call" FAKE_FAULT_AFTER="${fault#*:}"
        case $call in ncclAsyncError) text="NCCL: a peer is gone" ;; launch_copies) text="copy kernel: fake fault" ;; launch_crcs) text="checksum kernel: fake fault" ;; *) text="$call: fake fault" ;; esac
        stops "rank $host: "
        grep -qF "$text" err || fail "$fault: not '$text'"
    done
    # GPU memory runs out between the check and the allocation of staging: the keeper allocates first, in a process of its own.
    faulty "$host" memory FAKE_FAULT_AFTER=1
    stops "rank $host: "
    grep -q "GPU 0: [0-9.]* MB do not fit: .* are free" err || fail "no memory: another error"
    still_held
}
failing_on_0() { failing 0; }
failing_on_1() { failing 1; }
ending() {
    local fault
    small_rounds
    becomes small fsdp=2 0 1 -- "${cuda[@]}" --transport nccl
    says "between['bytes'] == 20000000 and between['rounds'] == 2 and between['transport'] == 'nccl'"
    # The abort that follows a failure fails, too.
    faulty 1 ncclSend,ncclCommAbort
    stops "rank 1: GPU 0: ncclSend: fake fault"
    faulty 1 cudaMallocHost
    stops "rank 1: GPU 0: cudaMallocHost: fake fault" --transport mpi
    # A message that is lost: both wait, and stop after --patience.
    faulty 1 ncclLost
    stops "NCCL: no progress for 3 s" --patience 3
    # A process that dies in a round.
    for fault in ncclSend:0 ncclSend:1 ncclRecv:1 ncclGroupEnd:2 launch_copies:1; do
        faulty 1 "${fault%%:*}" FAKE_FAULT_AFTER="${fault#*:}" FAKE_FAULT_KILL=1
        hosts 2 "$tpx" hold hold:old --name new --to fsdp=2 --device cuda >out 2>err && fail "$fault: a killed host succeeds"
        only 2
    done
    still_held
}
# Memory is checked before anything moves: what messages need at least does not fit beside the new state.
little_memory() {
    small_rounds
    FAKE_MEMORY=33000000
    refuses 1 "--transport nccl: $(hostname) (rank 0): GPU 0: 16.8 MB of messages do not fit beside " hosts 2 "$tpx" hold hold:old --name new --to fsdp=2 --device cuda --transport nccl
    only 2
    becomes small fsdp=2 0 1 -- "${cuda[@]}"
    says "between['transport'] == 'mpi' and 'of messages do not fit beside' in between['reason']" \
        "all(need['direct'] for one in hosts for need in one['needs'])"
    # Without room for the lists, no kernel runs: tensors are read through host memory, and copied to the GPU when they are complete.
    FAKE_MEMORY=12000000
    FAKE_FAULT=launch_copies becomes small fsdp=2 0 1 -- "${cuda[@]}"
    says "between['transport'] == 'mpi' and between['nccl_bytes'] == 0 and not any(need['direct'] for one in hosts for need in one['needs'])"
    grep -q "(rank 1): GPU 0 has no room for .* of lists of copies beside 10.0 MB of new state; its tensors are copied through host memory" noted || fail "$(cat noted)"
    refuses 1 "tpx: --transport nccl: GPU 0: sending needs 7.47 MB for lists of copies beside 10.0 MB of new state, but only 12.0 MB are free" hosts 2 "$tpx" hold hold:old --name new --to fsdp=2 --device cuda --transport nccl
    FAKE_MEMORY=9000000
    refuses 1 "rank 0 needs 10.0 MB, but 9.00 MB of 9.00 MB are free" hosts 2 "$tpx" hold hold:old --name new --to fsdp=2 --device cuda
    becomes small fsdp=2 0 1 -- --device auto
    says "all(one['gpus'] == [] and 'are free' in one['reason'] for one in hosts)"
    unset FAKE_MEMORY
    only 2
    still_held
}
each=new_hosts
side_by_side 3 failing_on_0 failing_on_1 two_rounds connecting_first connecting_last ending drawn_first drawn_last little_memory replicas \
    three_hosts from_host_memory overflows no_library invalid_uses
echo "hold_transport: all as it should be"
