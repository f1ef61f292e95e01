#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""kills.py [--tpx TPX] [--scratch DIR] [--layers N] [--kills N] [--ranks N] [--hosts N] [--seed N] [--write]

Kills `tpx reshard` at random moments, and runs the same command again until it succeeds. A kill sends SIGKILL to a rank, to
mpirun or to all processes, or stops a rank with SIGSTOP for longer than --patience. Continued runs can be killed, too, and have
a random number of ranks. After each kill, the output is either missing or complete, and no process is left. In the end, the
files equal those of an undisturbed run, byte for byte. Exits with 1 at the first fault.

With --hosts N, ranks run on up to N emulated hosts (tests/net/hosts.sh, which needs root), and a kill ends all processes of one
host, which can be the host of mpirun.
"""
import argparse
import filecmp
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import llama
from timing import machine, remove, run

HERE = Path(__file__).resolve().parent
PATIENCE = 3  # seconds
CHANGES = [("torch_dist", "tp=1", "tp=4"), ("torch_dist", "tp=4", "pp=2"), ("dcp", "fsdp=1", "fsdp=16"), ("dcp", "fsdp=8", "fsdp=2")]


class Fault(Exception):
    pass


def reshard(tpx, ranks, source, out, to, kind, launcher="mpirun"):
    return [launcher, "-n", str(ranks), tpx, "reshard", str(source), str(out), "--to", to, "--format", kind, "--patience", str(PATIENCE), "--quiet"]


def ranks_of(out):
    """The processes that run tpx with this output."""
    found = []
    for process in Path("/proc").iterdir():
        try:
            words = (process / "cmdline").read_bytes().split(b"\0") if process.name.isdigit() else []
        except OSError:
            continue
        if len(words) > 3 and words[1] == b"reshard" and words[3] == os.fsencode(out):
            found.append(int(process.name))
    return found


def end(pid, number):
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        pass


def disturb(job, out, kind, hosts):
    """Kills or stops processes of a running job; returns when it has ended."""
    ranks = ranks_of(out)
    if kind == "host":
        subprocess.run(["end-processes", f"th{random.randrange(hosts)}"], check=True)
    if kind in ("rank", "stop") and ranks:
        end(random.choice(ranks), signal.SIGKILL if kind == "rank" else signal.SIGSTOP)
    if kind == "launcher":
        job.kill()
    if kind == "all":
        job.kill()
        for pid in ranks:
            end(pid, signal.SIGKILL)
    stopped = ranks if kind == "stop" else []
    limit = time.monotonic() + 20 * PATIENCE
    while job.poll() is None or ranks_of(out):
        for pid in stopped if job.poll() is None and time.monotonic() > limit - 15 * PATIENCE else []:
            end(pid, signal.SIGCONT)  # all other ranks have ended; mpirun waits for the stopped one
        if time.monotonic() > limit:
            raise Fault(f"{kind}: hung, or left processes: {ranks_of(out)}")
        time.sleep(0.02)
    return job.returncode


def same(left, right):
    """Whether two folders contain the same files."""
    files = [sorted(path.relative_to(folder) for path in folder.rglob("*")) for folder in (left, right)]
    return files[0] == files[1] and all(
        (left / path).is_dir() or filecmp.cmp(left / path, right / path, shallow=False) for path in files[0])


def attempt(tpx, source, expected, out, change, duration, counts, hosts):
    """Runs the command until an output exists; runs are killed unless they end first. Raises Fault if the output is wrong."""
    kind, _, to = change
    launcher = "mpirun-hosts" if hosts else "mpirun"
    ways, weights = (["host"], [1]) if hosts else (["rank", "launcher", "all", "stop"], [4, 3, 3, 1])
    while True:
        ranks = random.randint(1, hosts or 3)
        job = subprocess.Popen(reshard(tpx, ranks, source, out, to, kind, launcher), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(random.uniform(0, duration))
        if job.poll() is None:
            how = random.choices(ways, weights)[0]
            status = disturb(job, out, how, ranks)
            counts[how] += 1
        else:
            status = job.returncode
        if out.exists():
            if not same(expected, out):
                raise Fault(f"{change}: {out} is not the output of an undisturbed run")
            counts["outputs"] += 1
            return
        if status == 0:
            raise Fault(f"{change}: exit 0 without an output")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[1])
    parser.add_argument("--tpx", default=HERE.parent / "build/release/cmd/tpx", type=Path)
    parser.add_argument("--scratch", type=Path)
    parser.add_argument("--layers", type=int, default=2, help="of the model; each is 0.4 GiB")
    parser.add_argument("--kills", type=int, default=500)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--hosts", type=int, default=0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--write", action="store_true", help="put the table into RESULTS.md")
    options = parser.parse_args()
    if options.hosts and not shutil.which("mpirun-hosts"):
        os.execvp("sh", ["sh", HERE.parent / "tests/net/hosts.sh", *["10gbit"] * options.hosts, "--", sys.executable, *sys.argv])
    random.seed(options.seed)
    tpx = str(options.tpx.resolve())
    counts = Counter()
    with tempfile.TemporaryDirectory(dir=options.scratch) as folder:
        scratch = Path(folder)
        total, weights = llama.write(scratch / "weights", options.layers), scratch / "weights"
        prepared = []
        for number, change in enumerate(CHANGES):
            kind, before, after = change
            source, expected = scratch / f"source{number}", scratch / f"expected{number}"
            run(reshard(tpx, options.ranks, weights, source, before, kind))
            started = time.monotonic()
            run(reshard(tpx, options.ranks, source, expected, after, kind))
            prepared.append((change, source, expected, time.monotonic() - started))
        while sum(counts[k] for k in ("rank", "launcher", "all", "stop", "host")) < options.kills:
            change, source, expected, duration = random.choice(prepared)
            out = scratch / "out"
            attempt(tpx, source, expected, out, change, duration, counts, options.hosts)
            remove(out)
            for left in scratch.glob("out*"):
                raise SystemExit(f"kills.py: {change}: left {left}")
            print(dict(counts), file=sys.stderr, flush=True)
    if options.hosts:
        done = f"SIGKILL of all processes of {counts['host']} emulated hosts"
    else:
        done = (f"SIGKILL of {counts['rank']} ranks, {counts['launcher']} times of mpirun, {counts['all']} times of all processes, and "
                f"SIGSTOP of {counts['stop']} ranks")  # fmt: skip
    text = (f"`bench/kills.py --kills {options.kills}{f' --hosts {options.hosts}' if options.hosts else ''}` on {machine(HERE)}: {total / 2**30:.1f} GiB, {len(CHANGES)} changes, "
            f"{done}; {counts['outputs']} outputs, all equal to those of undisturbed runs. No run hung or left a "
            "process: the first that does ends this program.")  # fmt: skip
    print(text)
    if options.write:
        import results

        results.put("reshard: kills", text)


if __name__ == "__main__":
    try:
        main()
    except Fault as fault:
        sys.exit(f"kills.py: {fault}")
