#!/bin/sh
# hosts.sh RATE... -- COMMAND: runs COMMAND on emulated hosts th0, th1, ... of this machine, network namespaces on a bridge,
# each with a NIC of its RATE (in the notation of tc, "1gbit") both ways. In COMMAND, `mpirun-hosts` starts a rank on each of them, and
# `set-link HOST down` cuts a host off, `set-link HOST up` connects it again and waits: the kernel passes no packets for
# up to a second after a link came up. `set-rate HOST RATE` gives a host's NIC another rate, `sent-by HOST` prints
# the bytes that it has sent. `end-processes HOST` ends all processes on HOST, like a restart. Exits with 77 (skipped) if that is not
# permitted or tools are missing.
set -u
rates=
while [ $# -gt 0 ] && [ "$1" != -- ]; do
    rates="$rates $1"
    shift
done
shift
for tool in ip tc unshare mpirun; do
    command -v "$tool" >/dev/null || { echo "skipped: no $tool here"; exit 77; }
done
[ "$(id -u)" -eq 0 ] || { echo "skipped: only root can emulate hosts"; exit 77; }

id=$$
scratch=$(TMPDIR=/tmp mktemp -d) || exit 1 # Open MPI splits its agent at blanks
clean() {
    for space in $(ip netns list 2>/dev/null | awk -v id="tpx$id" 'index($1, id) == 1 { print $1 }'); do ip netns delete "$space"; done
    rm -rf "$scratch"
}
trap clean EXIT
trap 'exit 1' INT TERM

# The switch, and a pair of interfaces for each host, with rate limits for outgoing packets at both ends.
build() {
    ip netns add "tpx${id}sw" && ip -n "tpx${id}sw" link add bridge type bridge && ip -n "tpx${id}sw" link set bridge up || return 1
    number=0
    : >"$scratch/hostfile"
    for rate in $rates; do
        space=tpx${id}h$number
        ip netns add "$space" && ip -n "$space" link set lo up &&
            ip link add "port$number" netns "tpx${id}sw" type veth peer name eth0 netns "$space" &&
            ip -n "tpx${id}sw" link set "port$number" master bridge up &&
            ip -n "$space" address add "10.98.0.$((number + 1))/24" dev eth0 && ip -n "$space" link set eth0 up &&
            tc -n "$space" qdisc add dev eth0 root tbf rate "$rate" burst 512kb latency 20ms &&
            tc -n "tpx${id}sw" qdisc add dev "port$number" root tbf rate "$rate" burst 512kb latency 20ms || return 1
        echo "th$number slots=1" >>"$scratch/hostfile"
        number=$((number + 1))
    done
}
build 2>"$scratch/refused" || { echo "skipped: no network namespaces with limited links: $(tail -n 1 "$scratch/refused")"; exit 77; }

# The command with which Open MPI starts processes on another host, in place of ssh: it enters the namespace with the
# host's own name.
cat >"$scratch/remote" <<END
#!/bin/sh
while case \$1 in -*) true ;; *) false ;; esac; do shift; done
number=\${1#th}
host=\$1
shift
exec ip netns exec "tpx${id}h\$number" unshare --uts sh -c 'hostname "\$1"; shift; exec sh -c "\$*"' sh "\$host" "\$@"
END
# Emulated hosts of other tests have the same names and the same /tmp: a separate folder keeps them apart.
mkdir "$scratch/tmp" || exit
cat >"$scratch/mpirun-hosts" <<END
#!/bin/sh
exec "$scratch/remote" th0 mpirun --hostfile "$scratch/hostfile" --map-by node --bind-to none --mca plm rsh \\
    --mca plm_rsh_agent "$scratch/remote" --mca pml ob1 --mca btl vader,tcp,self \\
    --mca orte_tmpdir_base "$scratch/tmp" --mca btl_tcp_if_include 10.98.0.0/24 \\
    --mca oob_tcp_if_include 10.98.0.0/24 --mca mpi_yield_when_idle 1 "\$@"
END
cat >"$scratch/set-link" <<END
#!/bin/sh
ip -n "tpx${id}sw" link set "port\${1#th}" "\$2" || exit
[ "\$2" = up ] || exit 0
for _ in \$(seq 50); do
    # No process listens on this port: a refused connection shows that the host answers.
    ip netns exec "tpx${id}h\${1#th}" timeout 1 bash -c 'echo >/dev/tcp/10.98.0.1/9' 2>&1 | grep -q refused && exit 0
    sleep 0.1
done
echo "hosts.sh: \$1 has no connection" >&2
exit 1
END
cat >"$scratch/set-rate" <<END
#!/bin/sh
number=\${1#th}
tc -n "tpx${id}h\$number" qdisc change dev eth0 root tbf rate "\$2" burst 512kb latency 20ms &&
    tc -n "tpx${id}sw" qdisc change dev "port\$number" root tbf rate "\$2" burst 512kb latency 20ms
END
cat >"$scratch/sent-by" <<END
#!/bin/sh
exec ip netns exec "tpx${id}h\${1#th}" cat /sys/class/net/eth0/statistics/tx_bytes
END
cat >"$scratch/end-processes" <<END
#!/bin/sh
for pid in \$(ip netns pids "tpx${id}h\${1#th}"); do kill -9 "\$pid"; done
END
chmod +x "$scratch/remote" "$scratch/mpirun-hosts" "$scratch/set-link" "$scratch/set-rate" "$scratch/sent-by" "$scratch/end-processes"
PATH=$scratch:$PATH
export PATH OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
unset OMPI_MCA_plm_rsh_agent OMPI_MCA_hwloc_base_binding_policy OMPI_MCA_rmaps_base_oversubscribe
"$@"
