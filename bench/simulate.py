#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""simulate.py TPX DATA: CPU seconds (the best of three runs) and peak memory of `tpx simulate` for several traces and policies.
DATA has traces/philly.csv; testdata/ has the rest. Prints a table for RESULTS.md."""
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def run(command):
    best, memory = None, 0
    for _ in range(3):
        pid = os.posix_spawn(command[0], command, dict(os.environ), file_actions=[
            (os.POSIX_SPAWN_OPEN, 1, "/dev/null", os.O_WRONLY, 0)])
        _, status, usage = os.wait4(pid, 0)
        if status != 0:
            raise SystemExit(f"failed: {' '.join(command)}")
        seconds = usage.ru_utime + usage.ru_stime
        best = seconds if best is None else min(best, seconds)
        memory = max(memory, usage.ru_maxrss / 1024)
    return best, memory


def main():
    tpx, data = sys.argv[1], Path(sys.argv[2])
    rubick, philly = ROOT / "testdata/simulate/rubick-base.csv", data / "traces/philly.csv"
    speeds = ROOT / "testdata/profile/rubick"
    elastic = ["--elastic", "0..1"]  # from one GPU to the number that a job requests
    print("| trace | GPUs | policy | seconds | jobs per second | MiB |")
    print("|---|---|---|---|---|---|")

    def row(name, jobs, gpus, policy, options):
        command = [tpx, "simulate", *map(str, options), "--policy", policy, "--json"]
        seconds, memory = run(command)
        print(f"| {name} | {gpus} | {policy} | {seconds:.2f} | {jobs / seconds:,.0f} | {memory:.0f} |", flush=True)

    for policy in ("fifo", "rubick", "sia"):
        row("Rubick, 406 jobs", 406, 64, policy, [rubick, "--cluster", "8x8", "--speeds", speeds, "--reconfig", 78])
    for policy in ("fifo-backfill", "srtf", "las", "rubick"):
        row("Philly, 82,247 jobs", 82247, 2490, policy, [philly, "--cluster", "311x8,1x2"])
    for policy in ("fifo-backfill", "srtf", "las", "wfs", "rubick", "gavel", "sia"):
        row("Philly, 82,247 jobs", 82247, 512, policy, [philly, "--cluster", "64x8", "--skip-bad", "--quiet"])
    row("Philly, elastic", 82247, 2490, "wfs", [philly, "--cluster", "311x8,1x2", *elastic])
    row("Philly, elastic", 82247, 512, "wfs", [philly, "--cluster", "64x8", *elastic, "--skip-bad", "--quiet"])
    row("Philly, elastic", 82247, 2490, "rubick", [philly, "--cluster", "311x8,1x2", *elastic])
    for policy, sizes in (("fifo-backfill", (10_000, 100_000, 1_000_000)), ("wfs", (10_000, 100_000)),
                          ("las", (10_000, 100_000))):
        for jobs in sizes:
            row(f"random, {jobs:,} jobs", jobs, 2490, policy,
                ["--generate", f"jobs={jobs},hourly=100", "--cluster", "311x8,1x2", *elastic])


if __name__ == "__main__":
    main()
