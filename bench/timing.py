# SPDX-License-Identifier: Apache-2.0
"""Functions that benches share: timing commands in turn, and describing the machine."""
import os
import platform
import shutil
import statistics
import subprocess
import sys
import time
from pathlib import Path

MPI = {
    "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMPI_MCA_rmaps_base_oversubscribe": "1",
    "OMPI_MCA_hwloc_base_binding_policy": "none", "OMPI_MCA_plm_rsh_agent": "false",
}  # fmt: skip


def output(command):
    """Runs a command to its end; returns its standard output."""
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **MPI})
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}: exit {done.returncode}\n{done.stderr}")
    return done.stdout


def run(command):
    """Runs a command to its end; returns the seconds."""
    started = time.perf_counter()
    output(command)
    return time.perf_counter() - started


def remove(path):
    shutil.rmtree(path, ignore_errors=True)


def warm(path):
    """Reads every file below `path`, so that all are in the page cache."""
    for file in Path(path).rglob("*"):
        if file.is_file():
            with open(file, "rb", buffering=0) as stream:
                while stream.read(1 << 23):
                    pass


def size(path):
    return sum(file.stat().st_size for file in Path(path).rglob("*") if file.is_file())


def cool(path):
    """Drops every file below `path` from the page cache."""
    for file in Path(path).rglob("*"):
        if file.is_file():
            with open(file, "rb", buffering=0) as stream:
                os.posix_fadvise(stream.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def in_turn(functions, source, out, repeats, before=warm):
    """Calls functions that read `source`, make `out` and return the seconds that this took, in turn, each after
    before(source). The first turn is not counted, because it takes memory from the kernel for the first time. Returns a
    list of seconds for each function."""
    seconds = [[] for _ in functions]
    for turn in range(repeats + 1):
        for function, list_ in zip(functions, seconds):
            remove(out)
            os.sync()
            before(source)
            taken = function()
            if turn:
                list_.append(taken)
    remove(out)
    return seconds


def side_by_side(ours, theirs, source, out, repeats):
    """in_turn() of two functions, with a warm page cache."""
    return in_turn([ours, theirs], source, out, repeats)


def spread(list_):
    """The text "median (least–most)"."""
    return f"{statistics.median(list_):.2f} ({min(list_):.2f}–{max(list_):.2f})"


def machine(path):
    """One line: processor, cores, memory, kernel, file system of `path`."""
    with open("/proc/cpuinfo") as file:
        model = next((line.split(":")[1].strip() for line in file if line.startswith("model name")), platform.machine())
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    kind = subprocess.run(["findmnt", "-no", "FSTYPE", "-T", str(path)], capture_output=True, text=True).stdout.strip()
    return f"{model}, {os.cpu_count()} cores, {memory:.0f} GiB, Linux {platform.release()}, {kind}"
