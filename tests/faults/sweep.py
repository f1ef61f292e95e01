# SPDX-License-Identifier: Apache-2.0
r"""sweep.py TPX SHIM RANKS TESTDATA [--job NAME]... [--error NAME] [--thin] [--one-in N [--offset K]] [--workers N] [--list]

Runs small jobs of tpx (jobs.py) repeatedly; each time, one file system call below the job's folder fails (fault.c).
Without options, every call of every job fails with every error, alone and together with all later calls of its kind;
for jobs with two ranks, on the first, on the second, and on both. For jobs with one rank, every call is also the last
before the process is killed. In each case:

  - tpx ends by itself, without a signal and without an internal error;
  - exit 0 means that output and files are, byte for byte, those of a run without faults;
  - exit 1 means that the output is unchanged, exit 4 that it is complete; there is no other exit status, except for
    verify, which answers no if it cannot read;
  - nothing else has changed; leftovers are named, do not look like a checkpoint unless they are a complete one, and do
    not prevent the next run from succeeding;
  - standard error names a file;
  - if the process was killed, the output is unchanged or complete; in the first case, the next run continues and ends
    with the output of an undisturbed one.

There are 150,220 cases of 14 to 35 ms each on one core, so they take more than an hour on an idle machine:

    nice sh tests/faults/run.sh build/release/cmd/tpx build/release/tests/libfaults.so \
        build/release/tests/libfault_ranks.so testdata --workers 1

--error: only cases of one error, or KILL.
--thin: the eleventh and later calls of one kind on files with the same name, except for numbers, fail with only one
error each, in turn.
--one-in N: every N-th case of a fixed shuffle, so that offsets 0 to N-1 together are all cases. Without --offset, K is
derived from the commit or, without git, from the date, and printed.

Not covered: faults of memory-mapped files and of calls that the C library makes by itself (mkdtemp, fopen), and MPI
between the ranks, which ranks.c replaces; only the runs without a fault are compared with those under mpirun.
"""
import argparse
import os
import random
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path
from typing import NamedTuple

from jobs import JOBS, Job
from place import Call, Place

ERRORS = ["EIO", "ENOSPC", "EACCES", "EINTR", "short"]
SHORT = {"read", "write"}  # categories that may move fewer bytes
QUOTA = {"write", "clone", "mkdir", "truncate", "open"}  # categories that may exceed a quota
ONWARD = {"write": "ENOSPC", "mkdir": "ENOSPC", "truncate": "ENOSPC", "clone": "ENOSPC", "read": "EIO",
          "open": "EACCES", "sync": "EIO", "rename": "EIO", "unlink": "EACCES", "close": "EIO"}
MANY = 10  # calls of one kind on files of one name that --thin lets fail in every way


class Case(NamedTuple):
    job: Job
    call: Call
    error: str
    onward: bool
    rank: str  # empty: all

    def __str__(self):
        rank = f" of rank {self.rank}" if self.rank else " of all ranks" if self.job.ranks > 1 else ""
        onward = " and all later ones of its kind" if self.onward else ""
        call = f"{self.call.category} {self.call.number} of {self.call.path}"
        return f"{self.job.name}: {call}{rank}{onward}: {self.error}"


def cases_of(job, place, thin):
    """Each call with each error."""
    calls = place.calls()
    for rank in ["0", "1", ""] if job.ranks > 1 else [""]:
        met = Counter()
        # All ranks fail where any of them has the call.
        for call in calls.get(rank, []) if rank else dict.fromkeys(call for each in calls.values() for call in each):
            kind = call.category, re.sub("[0-9]+", "N", os.path.basename(call.path))
            met[kind] += 1
            errors = [(error, False) for error in ERRORS if error != "short" or call.category in SHORT]
            if call.category in QUOTA:
                errors.append(("EDQUOT", False))
            if job.ranks == 1:  # without mpirun, the other ranks would wait for the killed one
                errors.append(("KILL", False))
            if call.category in ONWARD:
                errors.append((ONWARD[call.category], True))
            if thin and met[kind] > MANY:
                errors = [errors[met[kind] % len(errors)]]
            for error, onward in errors:
                yield Case(job, call, error, onward, rank)


class Tally:
    def __init__(self):
        self.left, self.cases, self.wrong, self.missed, self.statuses = 0, 0, 0, 0, Counter()

    def add(self, verdict):
        self.left -= 1
        self.cases += 1
        self.statuses[verdict.status] += 1
        self.missed += not verdict.reached
        self.wrong += bool(verdict.wrong)

    def merge(self, other):
        self.left, self.cases = self.left + other.left, self.cases + other.cases
        self.wrong, self.missed = self.wrong + other.wrong, self.missed + other.missed
        self.statuses += other.statuses

    def __str__(self):
        counts = ", ".join(f"{count} exit {status}" for status, count in sorted(self.statuses.items()))
        return f"{self.cases} cases: {counts}; {self.missed} did not reach their call; {self.wrong} wrong"


class Sweep:
    def __init__(self, options, scratch):
        self.options, self.scratch = options, scratch
        self.tallies = {}  # of each job
        self.lock = threading.Lock()

    def list(self):
        """All cases, job by job."""
        cases = []
        for job in JOBS:
            if self.options.job and job.name not in self.options.job:
                continue
            place = Place(self.options, job, self.scratch / "count" / job.name)
            mine = [case for case in cases_of(job, place, self.options.thin)
                    if self.options.error in (None, case.error)]
            place.close()
            cases += mine
            if self.options.list:
                print(f"{job.name}: {len(mine)} cases")
        return cases

    def run(self, cases):
        self.waiting = iter(cases)
        for case in cases:
            self.tallies.setdefault(case.job.name, Tally()).left += 1
        threads = [threading.Thread(target=self.work, args=(number,)) for number in range(self.options.workers)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def work(self, number):
        try:
            self.run_cases(self.scratch / f"worker{number}")
        except SystemExit as mistake:
            print(f"FAILED {mistake}", flush=True)

    def run_cases(self, folder):
        place = None
        while True:
            with self.lock:
                case = next(self.waiting, None)
            if place and (case is None or place.job != case.job):
                place.close()
                place = None
            if case is None:
                return
            place = place or Place(self.options, case.job, folder / case.job.name)
            verdict = place.try_fault(case)
            with self.lock:
                self.note(case, verdict)

    def note(self, case, verdict):
        tally = self.tallies[case.job.name]
        tally.add(verdict)
        for text in verdict.wrong:
            print(f"FAILED {case}: {text}", flush=True)
        if tally.left == 0:
            print(f"{case.job.name}: {tally}", flush=True)


def chosen_offset(count):
    """One that differs from commit to commit, or else from day to day."""
    head = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, cwd=Path(__file__).parent)
    number = int(head.stdout, 16) if head.returncode == 0 else int(time.time()) // 86400
    return number % count


def some_of(cases, options):
    offset = chosen_offset(options.one_in) if options.offset is None else options.offset
    print(f"cases {offset}, {offset + options.one_in}, ...: repeat with --one-in {options.one_in} --offset {offset}")
    order = list(range(len(cases)))
    random.Random(0).shuffle(order)
    return [cases[number] for number in sorted(order[offset::options.one_in])]


def scratch_place():
    """A file system in memory, where fsync costs nothing, if there is one."""
    memory = Path("/dev/shm")
    return memory if "TMPDIR" not in os.environ and os.access(memory, os.W_OK) else None


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("tpx", type=os.path.abspath), parser.add_argument("shim", type=os.path.abspath)
    parser.add_argument("ranks", type=os.path.abspath)
    parser.add_argument("testdata")
    parser.add_argument("--job", action="append", default=[])
    parser.add_argument("--error", choices=[*ERRORS, "EDQUOT", "KILL"])
    parser.add_argument("--thin", action="store_true")
    parser.add_argument("--one-in", type=int)
    parser.add_argument("--offset", type=int)
    parser.add_argument("--workers", type=int, default=os.cpu_count())
    parser.add_argument("--list", action="store_true")
    options = parser.parse_args()
    start = time.monotonic()
    with tempfile.TemporaryDirectory(dir=scratch_place()) as scratch:
        sweep = Sweep(options, Path(scratch).resolve())
        cases = sweep.list()
        total = len(cases)
        if options.list:
            print(f"{total} cases")
            return 0
        if options.one_in:
            cases = some_of(cases, options)
        sweep.run(cases)
    sum_of_all = Tally()
    for tally in sweep.tallies.values():
        sum_of_all.merge(tally)
    print(f"of {total} cases, in {time.monotonic() - start:.0f} s: {sum_of_all}")
    return 1 if sum_of_all.wrong or sum_of_all.left else 0


if __name__ == "__main__":
    sys.exit(main())
