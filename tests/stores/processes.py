# SPDX-License-Identifier: Apache-2.0
"""Kills the processes of a job that mpirun has started on this machine, where each rank represents a host."""
import os
import pathlib
import signal
import sys
import time

KINDS = ("rank", "host", "mpirun", "all")


def stat_of(pid):
    """The state and the parent of a process; None if it has ended."""
    try:
        fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return None if fields[0] in "ZX" else (fields[0], int(fields[1]))


def tree_of(pid):
    """The process and its descendants, parents first."""
    children = {}
    for name in os.listdir("/proc"):
        if name.isdigit() and (stat := stat_of(name)):
            children.setdefault(stat[1], []).append(int(name))
    tree = [pid]
    for parent in tree:
        tree += children.get(parent, [])
    return tree


def rank_of(pid):
    """The rank of a process that Open MPI has started; None if it is not a rank."""
    try:
        variables = pathlib.Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return None
    for variable in variables:
        if variable.startswith(b"OMPI_COMM_WORLD_RANK="):
            return int(variable.partition(b"=")[2])
    return None


def send(pids, number):
    sent = 0
    for pid in pids:
        try:
            os.kill(pid, number)
            sent += 1
        except ProcessLookupError:
            pass
    return sent


def wait_until_stopped(job, seconds=60):
    """Waits for a rank that stops itself; returns whether one did before the end of the job."""
    for _ in range(seconds * 100):
        if job.poll() is not None:
            return False
        if any(rank_of(pid) is not None and (stat := stat_of(pid)) and stat[0] == "T" for pid in tree_of(job.pid)):
            return True
        time.sleep(0.01)
    return False


def kill(job, kind, rank):
    """Kills the processes of a running job that `kind` describes, and continues stopped ones. Returns whether a process
    was killed."""
    tree = tree_of(job.pid)
    if kind == "host":
        victims = [pid for pid in tree if rank_of(pid) == rank]
    elif kind == "mpirun":
        victims = [job.pid]
    else:
        victims = tree
    killed = job.poll() is None and send(victims, signal.SIGKILL) > 0
    send(set(tree) - set(victims), signal.SIGCONT)
    return killed


def wait_for_end(pids, seconds=120):
    """Waits for processes whose mpirun has ended: they must notice it."""
    for _ in range(seconds * 20):
        if not any(stat_of(pid) for pid in pids):
            return
        time.sleep(0.05)
    alive = [pid for pid in pids if stat_of(pid)]
    send(alive, signal.SIGKILL)
    sys.exit(f"processes {alive} have not ended {seconds} s after mpirun")
