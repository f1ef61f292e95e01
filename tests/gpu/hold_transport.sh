#!/bin/bash
# hold_transport.sh TPX TESTDATA CUDART: tpx hold moves state between GPUs of several hosts by NCCL, or by MPI and pinned memory, with
# fake CUDA (CUDART) and NCCL libraries. Each transport makes the same bytes as a checkpoint on disk.
set -u
# shellcheck disable=SC2034 # of what is sourced
tpx=$1 testdata=$2 CUDART=$3
# shellcheck source=tests/gpu/transports.sh
. "$(dirname "$0")/transports.sh"

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
        grep -q "(rank 0): GPU 0 has no room for .* of lists of copies beside 0 B of new state, so other hosts get its tensors through host memory" noted || fail "$(cat noted)"
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
    grep -q "(rank 1): GPU 0 has no room for .* of lists of copies beside 10.0 MB of new state, so its tensors are copied through host memory" noted || fail "$(cat noted)"
    refuses 1 "tpx: --transport nccl: GPU 0: sending needs 7.47 MB for lists of copies beside 10.0 MB of new state, but only 12.0 MB are free" hosts 2 "$tpx" hold hold:old --name new --to fsdp=2 --device cuda --transport nccl
    FAKE_MEMORY=9000000
    refuses 1 "rank 0 needs 10.0 MB, but 9.00 MB of 9.00 MB are free" hosts 2 "$tpx" hold hold:old --name new --to fsdp=2 --device cuda
    becomes small fsdp=2 0 1 -- --device auto
    says "all(one['gpus'] == [] and 'are free' in one['reason'] for one in hosts)"
    unset FAKE_MEMORY
    only 2
    still_held
}
side_by_side 3 two_rounds drawn_first drawn_last little_memory replicas three_hosts from_host_memory overflows no_library invalid_uses
echo "hold_transport: all as it should be"
