#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""start.py [--tpx TPX] [--repeats N] [--write]

CPU time of commands that do almost nothing, which is the CPU time to start tpx: the median of N runs, in turn."""
import argparse
import os
import statistics
import subprocess
from pathlib import Path

from results import put
from timing import machine

ROOT = Path(__file__).resolve().parent.parent

COMMANDS = {
    "`tpx --version`": ["--version"],
    "`tpx inspect` of Hugging Face shards with a configuration": ["inspect", "testdata/llama-small/hf"],
    "`tpx inspect` of Megatron rank files with their arguments": ["inspect", "testdata/llama-small/megatron-tp2pp2"],
    "`tpx inspect` of PyTorch DCP without a configuration": ["inspect", "testdata/dcp/fsdp2-tp2"],
}


def cpu_seconds(command):
    """CPU time (user and system) of a command, which must succeed."""
    child = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, used = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode != 0:
        raise SystemExit(f"{' '.join(map(str, command))}: exit {child.returncode}")
    return used.ru_utime + used.ru_stime


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tpx", default=ROOT / "build/release/cmd/tpx")
    parser.add_argument("--repeats", type=int, default=50)
    parser.add_argument("--write", action="store_true", help="put the table into RESULTS.md")
    options = parser.parse_args()
    runs = {title: [] for title in COMMANDS}
    for _ in range(options.repeats):
        for title, words in COMMANDS.items():
            runs[title].append(cpu_seconds([options.tpx, *words]))
    lines = [f"`bench/start.py` on {machine(ROOT)}: milliseconds of CPU time, medians of {options.repeats} runs in turn", "",
             "| command | CPU, ms |", "|---|---|"]
    lines += [f"| {title} | {1e3 * statistics.median(seconds):.1f} |" for title, seconds in runs.items()]
    print("\n".join(lines))
    if options.write:
        put("start", "\n".join(lines))


if __name__ == "__main__":
    main()
