#!/bin/sh
# link_down.sh TPX SLOW_WRITES: a host loses its link while tpx reshard runs on three emulated hosts. Whichever notices
# it first names the host: tpx after --patience, or mpirun with the keepalive options of tpx-reshard(1). All processes
# end, also on that host, and the same command completes the output. Exits with 77 (skipped) if hosts cannot be
# emulated.
set -u
tpx=$1 slow=$2
here=$(cd "$(dirname "$0")" && pwd)
if [ "${3:-}" != cut ]; then
    out=$(mktemp -d) && trap 'rm -rf "$out"' EXIT
    cd "$out" || exit 1
    sh "$here/hosts.sh" 1gbit 1gbit 1gbit -- sh "$here/link_down.sh" "$tpx" "$slow" cut
    exit
fi
fail() {
    echo "link_down: $*" >&2
    cat err >&2
    exit 1
}

# 128 MB in one tensor; each write takes an additional second.
head='{"w":{"dtype":"F32","shape":[32000,1000],"data_offsets":[0,128000000]}}'
mkdir hf
{
    printf "\\$(printf '%03o' ${#head})\0\0\0\0\0\0\0%s" "$head"
    seq 100000000 | head -c 128000000
} >hf/model.safetensors

# SECONDS [OPTION]...: of mpirun
reshard() {
    patience=$1
    shift
    mpirun-hosts "$@" -n 3 "$tpx" reshard "$PWD/hf" "$PWD/out" --to fsdp=64 --format dcp --patience "$patience" --threads 1
}

# SECONDS [OPTION]...: starts slow writes and disconnects th2; returns when all processes have ended.
reshard_without_th2() {
    rm -rf out.partial-*
    reshard "$@" -x LD_PRELOAD="$slow" -x SLOW_WRITES_MS=1000 >said 2>err &
    job=$!
    for _ in $(seq 300); do ls out.partial-*/.tpx/journal.* >/dev/null 2>&1 && break; sleep 0.1; done
    sleep 2
    set-link th2 down
    for _ in $(seq 60); do
        kill -0 $job 2>/dev/null || break
        sleep 1
    done
    ! kill -0 $job 2>/dev/null || { pkill -KILL -f "mpirun .* $PWD/out"; fail "the job goes on"; }
    wait $job && fail "exit status 0"
    for _ in $(seq 60); do
        pgrep -f "^$tpx reshard $PWD/hf" >/dev/null || break
        sleep 1
    done
    ! pgrep -f "^$tpx reshard $PWD/hf" >/dev/null || fail "processes are left"
    [ ! -e out ] || fail "an output"
    # Open MPI's agent on th2 ends only when TCP gives up or the link returns; then it removes the folder in /tmp that a
    # new agent uses.
    end-processes th2
    set-link th2 up
}

# tpx notices first. mpirun then tells th2 to end the job, and waits until TCP gives up: after 15 minutes by default,
# here after seconds.
for host in th0 th1 th2; do
    remote $host sysctl -q net.ipv4.tcp_retries2=4 || { echo "skipped: the kernel's limit cannot be set here"; exit 77; }
done
reshard_without_th2 5
grep -q "^tpx: rank 0: rank 2 on host th2 has not answered for 5 s (--patience)" err || fail "tpx does not name th2"

# mpirun notices first.
reshard_without_th2 60 --mca oob_tcp_keepalive_time 5 --mca oob_tcp_keepalive_intvl 1 --mca oob_tcp_keepalive_probes 3
grep -q "Remote daemon: .* on node th2" err || fail "mpirun does not name th2"

reshard 60 >said 2>err || fail "it cannot be continued"
grep -q "continuing the earlier run" err || fail "it starts over"
"$tpx" verify hf out >said 2>err || fail "another output"
