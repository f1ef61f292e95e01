#!/bin/sh
# requeue.sh TPX SLOW TESTDATA: examples/slurm/requeue.sbatch on a cluster: after the signal that it requests from
# Slurm, a preemption and a node failure, it continues in the same unfinished folder and writes the same output as an
# undisturbed run.
set -u
tpx=$1 slow=$2
here=$(cd "$(dirname "$0")" && pwd)
[ "${4:-}" = inside ] || exec sh "$here/cluster.sh" 2 2 2 2 2 2 2 2 -- sh "$here/requeue.sh" "$tpx" "$slow" "$3" inside
# shellcheck source=tests/slurm/job.sh
. "$here/job.sh"

SLOW_WRITES_MS=200 # so that on a busy machine, too, no job ends before it is stopped

# The jobs run at the same time, each on two separate nodes.
for name in limit preempted failed cancelled; do
    # shellcheck disable=SC2086 # words
    sbatch --parsable --output=$name.log "$here/../../examples/slurm/requeue.sbatch" source $name $options >$name.job ||
        fail "sbatch failed"
done
for name in limit preempted failed cancelled; do
    wait_for 300 has_written $name
    echo $name.partial-* >$name.folder
done
nodes_of() { squeue --noheader --jobs="$(cat "$1.job")" --format=%N; }

# As before the time limit: a signal to the script alone. Time limits are in minutes, which is too long for a test.
scancel --batch --signal=USR1 "$(cat limit.job)"

# Preemption: a job of another partition takes the nodes.
srun --partition=urgent --nodelist="$(nodes_of preempted)" --nodes=2 --ntasks=4 --quiet true &
urgent=$!

# A node failure, on the node where the script does not run: Slurm requeues the job by itself.
node=$(scontrol show hostnames "$(nodes_of failed)" | tail -n 1)
kill-node "$node"
scontrol update nodename="$node" state=down reason=test

# No preemption: the job must not come back.
scancel "$(cat cancelled.job)"

wait "$urgent" || fail "the urgent job failed"
has_restarted() { scontrol --oneliner show job "$(cat "$1.job")" | grep -q 'Restarts=1 '; }
for name in limit preempted failed; do
    wait_for 300 has_restarted $name
    if [ -e $name ]; then fail "$name: an output before it was continued"; fi
    [ -e "$(cat $name.folder)" ] || fail "$name: its unfinished folder is gone"
done
for name in limit preempted; do
    grep -q "stopped with status 75; requeueing job $(cat $name.job)" $name.log || fail "$name: no status 75"
done
start-node "$node"
scontrol update nodename="$node" state=resume

for name in limit preempted failed; do
    wait_for 300 is_in_state "$(cat $name.job)" COMPLETED
    grep -q "continuing the earlier run in $(cat $name.folder)" $name.log || fail "$name: began anew"
    grep -q '"bytes_kept":[1-9]' $name.log || fail "$name: kept nothing"
    is_whole $name
done
is_in_state "$(cat cancelled.job)" CANCELLED || fail "the cancelled job is $(state_of "$(cat cancelled.job)")"
