#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""scale.py [--tpx TPX] [--repeats N] [--most RANKS] [--write]

CPU seconds and memory of `tpx plan` for a model of a trillion parameters with its optimizer, from 64 to 65,536 ranks, on one
core; each change removes a quarter of the ranks. Also the CPU seconds to check the plan, and whether the largest plans meet
the goals of the project: 16,384 ranks in one second, 65,536 in three seconds, with at most 1 GiB.
"""
import argparse
import os
import subprocess
import tempfile
from pathlib import Path

from timing import machine

HERE = Path(__file__).resolve().parent
PROMISED = {16384: 1, 65536: 3}  # seconds
MOST_MEMORY = 1024  # MiB


def layouts(ranks):
    """A plausible layout for `ranks`, and for three quarters of them, as text; 8 devices per host."""
    pp = min(16, max(2, ranks // 64))
    each = -(-61 // pp)
    last = 61 - each * (pp - 1)
    uneven = f",last={last}" if last != each else ""
    ep = min(64, ranks // pp)

    def text(all_ranks, ep):
        return f"tp=8,pp={pp},dp={all_ranks // pp // 8},ep={ep},etp=1,zero=1{uneven}"

    less = ranks * 3 // 4
    fewer = ep if (less // pp) % ep == 0 else ep * 3 // 4
    return text(ranks, ep), text(less, fewer)


def measure(command):
    """CPU seconds and peak resident memory in MiB of a command on one core."""
    core = min(os.sched_getaffinity(0))
    pid = os.posix_spawnp(
        "taskset", ["taskset", "-c", str(core), *map(str, command)], os.environ, file_actions=[(os.POSIX_SPAWN_OPEN, 1, "/dev/null", os.O_WRONLY, 0)]
    )
    _, status, usage = os.wait4(pid, 0)
    if status:
        raise SystemExit(f"{' '.join(map(str, command))}: exit {os.waitstatus_to_exitcode(status)}")
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def best(command, repeats):
    runs = [measure(command) for _ in range(repeats)]
    return min(seconds for seconds, _ in runs), max(memory for _, memory in runs)


def bar(seconds, longest):
    return "█" * max(1, round(40 * seconds / longest))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[1])
    parser.add_argument("--tpx", default=HERE.parent / "build/release/cmd/tpx")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--most", type=int, default=65536)
    parser.add_argument("--write", action="store_true", help="put the table into RESULTS.md")
    options = parser.parse_args()
    rows = []
    ranks = 64
    with tempfile.TemporaryDirectory() as folder:
        while ranks <= options.most:
            old, new = layouts(ranks)
            file = Path(folder) / "plan"
            plan = [options.tpx, "plan", "--model", "moe-1t", "--from", old, "--to", new, "--hosts", f"{ranks // 8}x8", "-q"]
            seconds, memory = best(plan, options.repeats)
            measure([*plan, "-o", file])
            check, _ = best([options.tpx, "plan", "--check", file, "-q"], 1)
            rows.append((ranks, old, new, seconds, memory, check, file.stat().st_size))
            print(rows[-1], flush=True)
            ranks *= 2
    longest = max(row[3] for row in rows)
    load = f"load {os.getloadavg()[0]:.0f} at the end"
    text = [f"`bench/scale.py` on {machine(HERE)}, {load}", "", "moe-1t, train (14 bytes per parameter), one core; every row loses a quarter of its ranks.", ""]
    text += ["| ranks | from | to | plan, CPU s | µs per rank | memory, MiB | check, CPU s | file, MB | |", "|---|---|---|---|---|---|---|---|---|"]
    for ranks, old, new, seconds, memory, check, size in rows:
        cells = [f"{ranks:,}", old, new, f"{seconds:.3f}", f"{seconds / ranks * 1e6:.0f}", f"{memory:.0f}", f"{check:.2f}", f"{size / 1e6:.1f}", bar(seconds, longest)]
        text.append("| " + " | ".join(cells) + " |")
    text.append("")
    for ranks, _, _, seconds, memory, _, _ in rows:
        if ranks in PROMISED:
            kept = "met" if seconds <= PROMISED[ranks] and memory <= MOST_MEMORY else "missed"
            text.append(f"Goal for {ranks:,} ranks, {PROMISED[ranks]} s and {MOST_MEMORY} MiB: {kept} ({seconds:.2f} s, {memory:.0f} MiB).")
    print("\n".join(text))
    if options.write:
        import results

        results.put("plan: scale", "\n".join(text))


if __name__ == "__main__":
    main()
