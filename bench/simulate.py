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
    every = ("fifo-backfill", "fifo", "priority", "srtf", "las", "wfs", "synergy", "antman", "rubick", "gavel", "sia")
    for gpus, cluster in ((2490, "311x8,1x2"), (512, "64x8")):
        for policy in every:
            row("Philly, 82,247 jobs", 82247, gpus, policy, [philly, "--cluster", cluster, "--skip-bad", "--quiet"])
        for policy in ("wfs", "rubick"):
            row("Philly, elastic", 82247, gpus, policy, [philly, "--cluster", cluster, *elastic, "--skip-bad", "--quiet"])
    for policy in ("fifo-backfill", "fifo", "priority", "srtf", "las"):
        row("random, 1,000,000 jobs", 1_000_000, 2490, policy, ["--generate", "jobs=1000000,hourly=100", "--cluster", "311x8,1x2"])


if __name__ == "__main__":
    main()
