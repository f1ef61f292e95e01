#!/bin/bash
# hold_transport_faults.sh TPX TESTDATA CUDART: if a call of CUDA or NCCL fails while state moves between GPUs of several hosts, or a
# process dies, no host holds new state, and nothing is left.
set -u
# shellcheck disable=SC2034 # of what is sourced
tpx=$1 testdata=$2 CUDART=$3
# shellcheck source=tests/gpu/transports.sh
. "$(dirname "$0")/transports.sh"

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
side_by_side 3 failing_on_0 failing_on_1 connecting_first connecting_last ending
echo "hold_transport_faults: all as it should be"
