#!/bin/sh
# stop.sh TPX SLOW TESTDATA: how srun, scancel and mpirun in a job handle requests to stop, as described in
# tpx-reshard(1): status 75 if ranks get SIGUSR1; another status, but no lost work, if they are killed.
set -u
tpx=$1 slow=$2
here=$(cd "$(dirname "$0")" && pwd)
[ "${4:-}" = inside ] || exec sh "$here/cluster.sh" 2 2 -- sh "$here/stop.sh" "$tpx" "$slow" "$3" inside
# shellcheck source=tests/slurm/job.sh
. "$here/job.sh"

# begin NAME LAUNCHER...: a run that has begun to write NAME, with the process ID `pid`.
begin() {
    name=$1
    shift
    # shellcheck disable=SC2086 # words
    "$@" tpx reshard source "$name" $options >"$name.log" 2>&1 &
    pid=$!
    wait_for 300 has_written "$name"
}
# ended STATUS: the run has ended with STATUS and left only its unfinished folder, to which no run is writing.
ended() {
    wait "$pid"
    status=$?
    [ "$status" -eq "$1" ] || fail "$name: status $status, not $1"
    [ ! -e "$name" ] || fail "$name: an output in spite of status $status"
    [ -d "$(echo "$name".partial-*)" ] || fail "$name: no unfinished folder"
}
# continued: the same command finishes what the last run began, in one process that writes as fast as it can
continued() {
    # shellcheck disable=SC2086 # words
    "$tpx" reshard source "$name" $options >"$name.log" 2>&1 || fail "$name: does not continue"
    grep -q '"bytes_kept":[1-9]' "$name.log" || fail "$name: kept nothing"
    is_whole "$name"
}

# srun forwards SIGUSR1 and returns the highest status of its tasks.
begin usr1 srun --mpi=pmix --nodes=2 --ntasks=4
kill -USR1 "$pid"
ended 75
continued

# So do scancel, if it is given the signal, and --signal before the time limit.
begin step srun --mpi=pmix --nodes=2 --ntasks=4 --job-name=step
scancel --signal=USR1 --name=step
ended 75
continued

# A canceled job gets SIGTERM, and has KillWait seconds to end; a single step is killed at once.
begin cancelled srun --mpi=pmix --nodes=2 --ntasks=4 --job-name=cancelled
scancel --name=cancelled
ended 75
continued
begin killed srun --mpi=pmix --nodes=2 --ntasks=4 --job-name=killed
scancel "$(squeue --noheader --name=killed --format=%i).0"
ended 137

# SIGTERM makes srun itself kill its tasks.
begin term srun --mpi=pmix --nodes=2 --ntasks=4
kill -TERM "$pid"
ended 137

# mpirun in a job: it forwards SIGUSR1, and exits with the status of the first rank.
begin mpirun salloc --quiet --nodes=2 --ntasks=4 mpirun
kill -USR1 "$(pgrep -P "$pid" -x mpirun)"
ended 75
continued
