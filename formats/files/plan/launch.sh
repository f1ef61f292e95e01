#!/bin/sh
# Starts the ranks of @LAYOUT@ where tpx placed them, @RANKS@ on @HOSTS@:
#     sh FILE torchrun [OPTIONS] -- SCRIPT [ARGS]    on every host
#     sh FILE srun     [OPTIONS] -- PROGRAM [ARGS]   once, in the Slurm job
#     sh FILE mpirun   [OPTIONS] -- PROGRAM [ARGS]   once, with Open MPI
# OPTIONS are options of the launcher. FILE must have the same path on all hosts.
# Every rank gets RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR, MASTER_PORT and CUDA_VISIBLE_DEVICES.
# LOCAL_RANK is the position of the rank's device in CUDA_VISIBLE_DEVICES: cuda:$LOCAL_RANK is the right device.
# TPX_LAYOUT is the layout. TPX_STATE, set only by tpx migrate, is the folder of the rank's state on its host, and TPX_DATA, set
# only with --data-store, that of the data files.
# Settings: MASTER_ADDR (default: the host of rank 0), MASTER_PORT (29500), and TPX_HOST, the name of this host in the
# table below (default: SLURMD_NODENAME, or the output of hostname).
set -eu
ranks=@RANKS@
nodes=@NODES@
master=@MASTER@

# HOST FIRST-RANK RANKS DEVICES STATE, a line for each block of consecutive ranks. Blocks of one host are nodes of their own to
# torchrun, and LOCAL_RANK counts the ranks of a block.
table() {
    cat <<'END'
@TABLE@
END
}

# HOST DATA, a line for each host: the folder of its data files.
data_table() {
    cat <<'END'
@DATA@
END
}

fail() {
    echo "$0: $*" >&2
    exit 2
}

# find_host name|short|rank VALUE: sets node, host, first, count, devices and state to the table's line for VALUE.
find_host() {
    node=0
    while read -r host first count devices state; do
        case $1 in
            name) if [ "$host" = "$2" ]; then return 0; fi ;;
            short) if [ "${host%%.*}" = "${2%%.*}" ]; then return 0; fi ;;
            rank) if [ "$2" -ge "$first" ] && [ "$2" -lt $((first + count)) ]; then return 0; fi ;;
        esac
        node=$((node + 1))
    done <<END
$(table)
END
    return 1
}

# find_line N: sets node, host, first, count, devices and state to line N of the table, counted from 0.
find_line() {
    node=0
    while read -r host first count devices state; do
        if [ "$node" -eq "$1" ]; then return 0; fi
        node=$((node + 1))
    done <<END
$(table)
END
    return 1
}

# Sets before to the ranks of the host that are in lines before that of find_host.
count_before() {
    before=0
    line=0
    while read -r each _ times _; do
        [ "$line" -lt "$node" ] || break
        if [ "$each" = "$host" ]; then before=$((before + times)); fi
        line=$((line + 1))
    done <<END
$(table)
END
}

# Finds the first line of the machine that this script runs on.
find_this_host() {
    name=${TPX_HOST:-${SLURMD_NODENAME:-$(hostname)}}
    find_host name "$name" || { [ -z "${TPX_HOST-}" ] && find_host short "$name"; }
}

# Sets CUDA_VISIBLE_DEVICES to the devices of this host's ranks, in order. Device i is the i-th device that is visible now.
order_devices() {
    IFS=,
    # shellcheck disable=SC2086 # one word for each device
    set -- ${CUDA_VISIBLE_DEVICES-}
    ordered=
    for device in $devices; do
        id=$device
        if [ -n "${CUDA_VISIBLE_DEVICES-}" ]; then
            [ "$device" -lt $# ] || fail "device $device of $host is not in CUDA_VISIBLE_DEVICES='$CUDA_VISIBLE_DEVICES';\
 request all devices of the host, without --gpus-per-task and --gpu-bind"
            eval "id=\${$((device + 1))}"
        fi
        ordered=${ordered:+$ordered,}$id
    done
    unset IFS
    export CUDA_VISIBLE_DEVICES="$ordered"
}

# Exports what a trainer needs to find its state and data.
export_state() {
    export TPX_LAYOUT='@LAYOUT@'
    if [ -n "$state" ]; then export TPX_STATE="$state"; else unset TPX_STATE; fi
    unset TPX_DATA
    while read -r each folder; do
        if [ "$each" = "$host" ]; then export TPX_DATA="$folder"; fi
    done <<END
$(data_table)
END
}

# Opens a file with the host of each rank as descriptor 9. The file itself is removed, so that nothing remains.
open_host_list() {
    list=$(mktemp)
    table | while read -r each _ times _; do
        while [ "$times" -gt 0 ]; do
            echo "$each"
            times=$((times - 1))
        done
    done >"$list"
    exec 9<"$list"
    rm "$list"
}

# start_rank RANK LOCAL_RANK SIZE PROGRAM...: runs as one rank. The launcher must have followed the table.
start_rank() {
    if find_this_host; then actual=$host; else actual=unknown; fi
    find_host rank "$1" || fail "rank $1 is not one of the $ranks ranks"
    [ "$actual" = unknown ] || [ "$actual" = "$host" ] || fail "started rank $1 on $actual; expected it on $host"
    count_before
    local=$(($1 - first + before))
    if [ "$3" -ne "$ranks" ] || [ "$2" -ne "$local" ]; then
        fail "started rank $1 of $3 as local rank $2; expected rank $1 of $ranks as local rank $local on $host"
    fi
    order_devices
    export_state
    export RANK="$1" WORLD_SIZE="$ranks" LOCAL_RANK="$(($1 - first))" LOCAL_WORLD_SIZE="$count"
    shift 3
    exec "$@"
}

# start_torchrun OPTIONS...: starts the block that find_host found, of this host.
start_torchrun() {
    order_devices
    export_state
    exec torchrun --nnodes="$nodes" --node-rank="$node" --nproc-per-node="$count" --master-addr="$MASTER_ADDR" \
        --master-port="$MASTER_PORT" "$@"
}

# start_all_torchruns OPTIONS...: starts all blocks of this host, waits for them, and exits with the status of the first
# one that fails, after ending the others.
start_all_torchruns() {
    this=$host
    pids=
    block=0
    for of in $(table | cut -d' ' -f1); do
        if [ "$of" = "$this" ]; then
            find_line "$block"
            (start_torchrun "$@") &
            pids="$pids $!"
        fi
        block=$((block + 1))
    done
    # shellcheck disable=SC2086 # one word for each process
    trap 'kill $pids 2>/dev/null || true' TERM INT
    status=0
    left=$pids
    while [ -n "$left" ] && [ "$status" -eq 0 ]; do
        sleep 1 # ended processes are gone after it
        running=
        for pid in $left; do
            if kill -0 "$pid" 2>/dev/null; then running="$running $pid"; else wait "$pid" || status=$?; fi
        done
        left=$running
    done
    # shellcheck disable=SC2086
    [ "$status" -eq 0 ] || kill $left 2>/dev/null || true
    wait
    exit "$status"
}

MASTER_ADDR=${MASTER_ADDR:-$master}
MASTER_PORT=${MASTER_PORT:-29500}
export MASTER_ADDR MASTER_PORT
mode=${1-}
[ $# -eq 0 ] || shift
case $mode in
    rank-of-srun) start_rank "$SLURM_PROCID" "$SLURM_LOCALID" "$SLURM_NTASKS" "$@" ;;
    rank-of-mpirun) start_rank "$OMPI_COMM_WORLD_RANK" "$OMPI_COMM_WORLD_LOCAL_RANK" "$OMPI_COMM_WORLD_SIZE" "$@" ;;
    torchrun | srun | mpirun) ;;
    *) fail "usage: sh $0 torchrun|srun|mpirun [OPTIONS] -- PROGRAM [ARGS]" ;;
esac

# Replaces the first -- with the words that start this script in every rank; torchrun needs none.
self=$(cd "$(dirname "$0")" && pwd)/$(basename "$0")
left=$#
words=0 # of PROGRAM and ARGS
while [ "$left" -gt 0 ]; do
    word=$1
    shift
    left=$((left - 1))
    if [ "$words" -gt 0 ] || [ "$word" != -- ]; then
        set -- "$@" "$word"
        continue
    fi
    words=$left
    [ "$mode" = torchrun ] || set -- "$@" sh "$self" "rank-of-$mode"
done
[ "$words" -gt 0 ] || fail "usage: sh $0 $mode [OPTIONS] -- PROGRAM [ARGS]"

case $mode in
    torchrun)
        find_this_host || fail "host '$name' is not in the table; set TPX_HOST to the name that the table contains"
        if [ "$count" -eq 0 ]; then
            echo "$0: no rank runs on $host" >&2
            exit 0
        fi
        if [ "$(table | cut -d' ' -f1 | grep -cxF -e "$host")" -gt 1 ]; then start_all_torchruns "$@"; fi
        start_torchrun "$@"
        ;;
    srun)
        open_host_list
        unset SLURM_NTASKS_PER_NODE
        SLURM_HOSTFILE=/dev/fd/9 exec srun --ntasks="$ranks" --distribution=arbitrary "$@"
        ;;
    mpirun)
        open_host_list
        export OMPI_MCA_hwloc_base_binding_policy="${OMPI_MCA_hwloc_base_binding_policy:-none}"
        exec mpirun -np "$ranks" --hostfile /dev/fd/9 --map-by seq -x MASTER_ADDR -x MASTER_PORT "$@"
        ;;
esac
