#!/bin/sh
# cluster.sh CPUS... -- COMMAND: runs COMMAND on a separate Slurm cluster, emulated on this machine: nodes n1, n2, ...
# with the given numbers of CPUs and two GPUs each; each node is a process ID namespace with its own hostname. Partition
# `main` gives way to partition `urgent`. COMMAND can use Slurm's commands, and `kill-node NAME` and `start-node NAME`,
# which act like pulling the plug and putting it back. Nothing is left when COMMAND ends or is killed, because
# everything runs in namespaces. Exits with 77 (skipped) if that is not permitted or tools are missing.
set -u

if [ "${1:-}" != inside ]; then
    for tool in slurmctld slurmd srun munged mpirun ip unshare setpriv; do
        command -v "$tool" >/dev/null || { echo "skipped: no $tool here"; exit 77; }
    done
    [ "$(id -u)" -eq 0 ] || { echo "skipped: only root can emulate nodes"; exit 77; }
    # The processes of one run neither see nor signal those of another one.
    separate='unshare --mount --uts --ipc --net --pid --fork --kill-child'
    refused=$($separate sh -c 'mount -t proc proc /proc && ip link add eth0 type veth peer name eth1' 2>&1) ||
        { echo "skipped: no namespaces: $(echo "$refused" | tail -n 1)"; exit 77; }
    scratch=$(TMPDIR=/tmp mktemp -d) || exit 1 # short, because names of sockets contain it
    chmod 755 "$scratch"
    # Processes that unshare started end with it. It ignores SIGTERM, but ends with this script, even if the script is
    # killed.
    trap 'kill -KILL "$pid" 2>/dev/null; wait; rm -rf "$scratch"' EXIT
    trap 'exit 1' INT TERM HUP
    # shellcheck disable=SC2086 # words
    setpriv --pdeathsig KILL $separate sh "$0" inside "$scratch" "$@" &
    pid=$!
    wait "$pid"
    exit
fi

scratch=$2
shift 2
mount -t proc proc /proc && hostname controller || exit 1
# With only a loopback interface, getaddrinfo finds no address family.
ip link set lo up && ip link add eth0 type veth peer name eth1 && ip address add 10.97.0.1/24 dev eth0 &&
    ip link set eth0 up && ip link set eth1 up || exit 1
echo "127.0.0.1 localhost controller $(seq -s ' ' -f 'n%g' 99)" >"$scratch/hosts"
mount --bind "$scratch/hosts" /etc/hosts || exit 1
mkdir "$scratch/state" "$scratch/bin" "$scratch/tmp" && cd "$scratch" || exit 1
PATH=$scratch/bin:$PATH
TMPDIR=$scratch/tmp # of jobs and of Open MPI
SLURM_CONF=$scratch/slurm.conf
export PATH TMPDIR SLURM_CONF OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
unset OMPI_MCA_plm_rsh_agent OMPI_MCA_hwloc_base_binding_policy OMPI_MCA_rmaps_base_oversubscribe

# In TmpFS, mpi/pmix makes a folder for each step, with the same name on all nodes. A requeued job waits for
# cred_expire.
cat >slurm.conf <<END
ClusterName=emulated
SlurmctldHost=controller(127.0.0.1)
SlurmctldPort=16817
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket=$scratch/munge.socket,cred_expire=5
CredType=cred/munge
MpiDefault=none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SwitchType=switch/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
GresTypes=gpu
SchedulerParameters=sched_min_interval=100000,batch_sched_delay=0,sched_interval=2,bf_interval=2
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
ReturnToService=2
SlurmdParameters=config_overrides
SlurmctldParameters=preempt_send_user_signal
SlurmdTimeout=6
KillWait=20
MinJobAge=300
StateSaveLocation=$scratch/state
SlurmctldPidFile=$scratch/slurmctld.pid
SlurmdPidFile=$scratch/slurmd.%n.pid
SlurmdSpoolDir=$scratch/spool.%n
TmpFS=$scratch/tmp.%n
SlurmctldLogFile=$scratch/slurmctld.log
SlurmdLogFile=$scratch/slurmd.%n.log
MailProg=/bin/true
END
nodes=0
while [ "$1" != -- ]; do
    nodes=$((nodes + 1))
    echo "NodeName=n$nodes NodeAddr=127.0.0.1 Port=$((16817 + nodes)) CPUs=$1 RealMemory=1000 Gres=gpu:2" >>slurm.conf
    shift
done
shift
cat >>slurm.conf <<END
PartitionName=main Nodes=n[1-$nodes] Default=YES PriorityTier=1 GraceTime=60
PartitionName=urgent Nodes=n[1-$nodes] PriorityTier=2 PreemptMode=OFF
END
echo "Name=gpu File=$scratch/gpu[0-1]" >gres.conf
touch gpu0 gpu1

cat >bin/start-node <<END
#!/bin/sh
rm -rf "$scratch/spool.\$1" "$scratch/tmp.\$1" # files that a step left when its node was killed would block the next one
mkdir "$scratch/spool.\$1" "$scratch/tmp.\$1"
unshare --mount --uts --pid --fork --kill-child sh -c \\
    'mount -t proc proc /proc; mount -t tmpfs tmpfs /dev/shm; hostname "\$0"; slurmd -D -N "\$0" & wait' "\$1" >/dev/null 2>&1 </dev/null &
echo \$! >"$scratch/\$1.pid"
END
cat >bin/kill-node <<END
#!/bin/sh
kill -KILL "\$(cat "$scratch/\$1.pid")"
END
chmod +x bin/*

give_up() {
    echo "$*"
    tail -n 20 ./*.log
    exit 1
}
(umask 077 && head -c 128 /dev/urandom >munge.key)
munged --force --key-file="$scratch/munge.key" --seed-file="$scratch/munge.seed" --socket="$scratch/munge.socket" \
    --pid-file="$scratch/munged.pid" --log-file="$scratch/munged.log" || give_up "munged did not start"
slurmctld || give_up "slurmctld did not start"
for number in $(seq "$nodes"); do start-node "n$number"; done
tries=0
while [ "$(sinfo --noheader --Node --partition=main --states=idle --format=%N 2>/dev/null | wc -l)" -ne "$nodes" ]; do
    tries=$((tries + 1))
    [ "$tries" -lt 100 ] || give_up "the nodes did not come up"
    sleep 0.1
done
(cd / && "$@")
