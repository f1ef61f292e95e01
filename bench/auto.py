#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""auto.py [--tpx TPX] [--repeats N] [--write]

Time and memory of `tpx plan --to auto`, which compares all layouts for three quarters of the devices. The bytes between
hosts of the layouts that it lists are checked against a plan for each of them. Then time and memory of single changes,
with each way to choose their placement.
"""
import argparse
import json
import os
import platform
import subprocess
import time
from pathlib import Path

from timing import machine

HERE = Path(__file__).resolve().parent
CASES = [
    ("deepseek-v3", "tp=8,pp=16,dp=16,ep=64,etp=1,zero=1,last=1", 256, 1536),
    ("moe-1t", "tp=8,pp=16,dp=128,ep=64,etp=1,zero=1,last=1", 2048, 12288),
]
CHANGES = [
    ("deepseek-v3", "tp=8,pp=16,dp=16,ep=64,etp=1,zero=1,last=1", 256, "tp=8,pp=16,dp=12,ep=32,etp=1,zero=1,last=1"),
    ("moe-1t", "tp=8,pp=16,dp=128,ep=64,etp=1,zero=1,last=1", 2048, "tp=8,pp=16,dp=96,ep=64,etp=1,zero=1,last=1"),
]
WAYS = [[], ["--objective", "time"], ["--placement", "groups"]]


def measure(command):
    """Seconds, CPU seconds, and peak resident memory in MiB of a command."""
    started = time.perf_counter()
    pid = os.posix_spawn(command[0], command, os.environ, file_actions=[(os.POSIX_SPAWN_OPEN, 1, "/dev/null", os.O_WRONLY, 0)])
    _, status, usage = os.wait4(pid, 0)
    if status:
        raise SystemExit(f"{' '.join(command)}: exit {os.waitstatus_to_exitcode(status)}")
    return time.perf_counter() - started, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def result(command):
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def check(base, found):
    """Checks that plans for the first layouts have the numbers of the list."""
    for row in found["candidates"]:
        plan = result([*base, "--to", row["layout"], "--json", "-q"])
        total = plan["total"]
        if total["other_host"] + total["storage"] != row["between_hosts"] or total["same_host"] != row["same_host"] or plan["seconds"] != row["seconds"]:
            raise SystemExit(f"{row['layout']}: {total} in the plan, {row} in the list")


def changes(tpx, repeats):
    """A table of single changes, one row for each way to choose the placement."""
    text = ["", "| model | hosts | to | placement | between hosts, B | time, s | CPU, s | memory, MiB |", "|---|---|---|---|---|---|---|---|"]
    for model, old, hosts, new in CHANGES:
        for way in WAYS:
            command = [tpx, "plan", "--model", model, "--from", old, "--to", new, "--hosts", f"{hosts}x8", *way, "--json", "-q"]
            runs = [measure(command) for _ in range(repeats)]
            plan = result(command)
            processors, memory = min(run[1] for run in runs), max(run[2] for run in runs)
            name = " ".join(way) or "default"
            text.append(f"| {model} | {hosts:,} | {new} | {name} | {plan['total']['other_host']:,} | {plan['seconds']:.3f} | {processors:.2f} | {memory:.0f} |")
            print(text[-1], flush=True)
    return text


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[1])
    parser.add_argument("--tpx", default=HERE.parent / "build/release/cmd/tpx")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--write", action="store_true", help="put the table into RESULTS.md")
    options = parser.parse_args()
    system = platform.freedesktop_os_release()
    text = [f"`bench/auto.py --repeats {options.repeats}` on {machine(HERE)}, {system['NAME']} {system.get('VERSION_ID', '')}", "", "| model | from | hosts | devices | layouts | wall, s | CPU, s | memory, MiB |", "|---|---|---|---|---|---|---|---|"]
    for model, old, hosts, devices in CASES:
        base = [str(options.tpx), "plan", "--model", model, "--from", old, "--hosts", f"{hosts}x8"]
        command = [*base, "--to", "auto", "--devices", str(devices), "--json", "-q"]
        runs = [measure(command) for _ in range(options.repeats)]
        found = result(command)
        check(base, found)
        layouts = len(found["candidates"]) + len(found["others"]) + found["left_out"]["layouts"]
        wall, processors, memory = min(runs)[0], min(run[1] for run in runs), max(run[2] for run in runs)
        text.append(f"| {model} | {old} | {hosts:,} | {devices:,} | {layouts} | {wall:.2f} | {processors:.2f} | {memory:.0f} |")
        print(text[-1], flush=True)
    text += changes(str(options.tpx), options.repeats)
    text[0] += f", load {os.getloadavg()[0]:.0f} at the end"
    print("\n".join(text))
    if options.write:
        import results

        results.put("plan: every layout", "\n".join(text))


if __name__ == "__main__":
    main()
