#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""CPU seconds and peak memory of `tpx simulate` for several traces, clusters and policies: the least time of several runs, which other
load on the machine affects the least. DATA has traces/philly.csv; testdata/ has the rest.

    bench/simulate.py TPX DATA [--repeats 3] [--only PATTERN]

Prints a table for the section "simulate" of RESULTS.md, and the paragraph above it.
"""
import argparse
import os
import re
from pathlib import Path

import timing

ROOT = Path(__file__).resolve().parents[1]
EVERY = ("fifo-backfill", "fifo", "priority", "srtf", "las", "wfs", "synergy", "antman", "rubick", "gavel", "sia")
RESIZING = ("wfs", "rubick", "sia")
SIMPLE = ("fifo-backfill", "fifo", "priority", "srtf", "las")
WORDS = """`bench/simulate.py` on {machine}: seconds of one core for the whole command, the least of {repeats}, and its
largest memory; if the policy is not fifo-backfill, the command simulates
fifo-backfill, too. Philly's jobs use 15 % of 2,490 GPUs, where hardly any job waits, and 73 % of 512 GPUs; *elastic* is
`--elastic 0..1`, from one GPU to the number that a job requests. Random jobs resemble Philly's: 100 per hour use 24 % of 2,490
GPUs; with 900 per hour on 512 GPUs, the queue grows without end.
The limits are 5 s and 200 MiB for Philly, and 60 s for a million jobs{verdict}.
"""


def run(command, repeats):
    """The least CPU seconds and the largest peak memory (MiB) of several runs."""
    best, memory = None, 0
    for _ in range(repeats):
        pid = os.posix_spawn(command[0], command, dict(os.environ), file_actions=[
            (os.POSIX_SPAWN_OPEN, 1, "/dev/null", os.O_WRONLY, 0)])
        _, status, usage = os.wait4(pid, 0)
        if status != 0:
            raise SystemExit(f"failed: {' '.join(command)}")
        seconds = usage.ru_utime + usage.ru_stime
        best = seconds if best is None else min(best, seconds)
        memory = max(memory, usage.ru_maxrss / 1024)
    return best, memory


def cases(data):
    """Tuples of trace, jobs, GPUs, policy, options, and the limits of seconds and MiB (0: none)."""
    rubick, philly = ROOT / "testdata/simulate/rubick-base.csv", data / "traces/philly.csv"
    costs = ["--speeds", ROOT / "testdata/profile/rubick", "--reconfig", 78]
    for policy in ("fifo", "rubick", "sia"):
        yield "Rubick, 406 jobs", 406, 64, policy, [rubick, "--cluster", "8x8", *costs], 0, 0
    for gpus, cluster in ((2490, "311x8,1x2"), (512, "64x8")):
        options = [philly, "--cluster", cluster, "--skip-bad"]
        for policy in EVERY:
            yield "Philly, 82,247 jobs", 82247, gpus, policy, options, 5, 200
        for policy in RESIZING:
            yield "Philly, elastic", 82247, gpus, policy, [*options, "--elastic", "0..1"], 5, 200
    for policy in SIMPLE:
        options = ["--generate", "jobs=1000000,hourly=100", "--cluster", "311x8,1x2"]
        yield "random, 1,000,000 jobs", 1_000_000, 2490, policy, options, 60, 0
    for policy in SIMPLE + ("sia",):
        options = ["--generate", "jobs=60000,hourly=900", "--cluster", "64x8"]
        yield "random, endless queue, 60,000 jobs", 60_000, 512, policy, options, 0, 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tpx")
    parser.add_argument("data", type=Path)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--only", default="", help="a regular expression, matched with 'TRACE|GPUs|POLICY'")
    arguments = parser.parse_args()
    rows = ["| trace | GPUs | policy | seconds | jobs per second | MiB |", "|---|---|---|---|---|---|"]
    missed = []
    print("\n".join(rows))
    for trace, jobs, gpus, policy, options, most_seconds, most_memory in cases(arguments.data):
        if not re.search(arguments.only, f"{trace}|{gpus}|{policy}"):
            continue
        command = [arguments.tpx, "simulate", *map(str, options), "--policy", policy, "--quiet", "--json"]
        seconds, memory = run(command, arguments.repeats)
        rows.append(f"| {trace} | {gpus} | {policy} | {seconds:.2f} | {jobs / seconds:,.0f} | {memory:.0f} |")
        print(rows[-1], flush=True)
        if (most_seconds and seconds > most_seconds) or (most_memory and memory > most_memory):
            missed.append(f"{trace} on {gpus} GPUs under {policy}")
    verdict = f"; missed by {', '.join(missed)}" if missed else "; all are met"
    machine = f"{timing.machine(ROOT)}, load {os.getloadavg()[0]:.0f} at the end"
    print("\n" + WORDS.format(machine=machine, repeats=arguments.repeats, verdict=verdict))


if __name__ == "__main__":
    main()
