#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""reshard.py [--tpx TPX] [--scratch DIR] [--layers N] [--repeats N] [--ranks N] [--formats F,F] [--cold] [--write]

Times `mpirun tpx reshard` in turn with `cp -r` of the same checkpoint, each file of both synced, and with two `dd
oflag=direct` that write as many zeros together, and prints both ratios: 1 is as fast as the other. The source lies in
the page cache, with --cold it does not. Then the peak memory of a rank beside what --memory allows. --write puts both
tables in RESULTS.md; --cold puts its own there.
"""
import argparse
import statistics
import sys
import tempfile
from pathlib import Path

import llama
from timing import cool, in_turn, machine, remove, run, size, spread, warm

HERE = Path(__file__).resolve().parent
CHANGES = {
    "torch_dist": [("tp=1", "tp=4"), ("tp=4", "tp=2"), ("tp=1", "pp=4")],
    "dcp": [("tp=1", "tp=4"), ("tp=4", "tp=2"), ("tp=1", "fsdp=4"), ("fsdp=1", "fsdp=512"), ("fsdp=512", "fsdp=1")],
}
MEMORIES = ["64MiB", "256MiB", "1GiB"]


def reshard(arguments, source, out, to, kind, *more):
    return [*arguments, "reshard", str(source), str(out), "--to", to, "--format", kind, "--quiet", *more]


def peak(options, command_of, scratch):
    """Largest resident size of a rank in MiB, over the arguments that `command_of` makes of a launcher."""
    log = scratch / "peak"
    log.unlink(missing_ok=True)
    run(command_of(["mpirun", "-n", str(options.ranks), sys.executable, str(HERE / "peak.py"), str(log), options.tpx]))
    return max(int(line) for line in log.read_text().split()) / 1024


def two_writers(out, total):
    """Two processes that write `total` bytes together, past the page cache."""
    blocks = -(-total // 2 // 2**24)
    write = f'dd if=/dev/zero of="{out}/$k" bs=16M count={blocks} oflag=direct conv=fsync 2>/dev/null'
    return ["sh", "-c", f'mkdir "{out}" && for k in 1 2; do {write} & done; wait']


def times(options, kind, weights, scratch):
    """A row for each change of layout of this format, and the last source."""
    launch = ["mpirun", "-n", str(options.ranks), options.tpx]
    source, out, have = scratch / "source", scratch / "out", None
    for before, after in CHANGES[kind]:
        if before != have:
            remove(source)
            run(reshard(launch, weights, source, before, kind))
            have = before
        copy = ["sh", "-c", f'cp -r "{source}" "{out}" && find "{out}" -type f -exec sync {{}} +']
        commands = [reshard(launch, source, out, after, kind), copy, two_writers(out, size(source))]
        functions = [lambda command=command: run(command) for command in commands]
        ours, copied, written = in_turn(functions, source, out, options.repeats, cool if options.cold else warm)
        taken = statistics.median(ours)
        yield (f"| {kind} | {before} → {after} | {spread(copied)} | {spread(written)} | {spread(ours)} | "
               f"{size(source) / taken / 1e9:.2f} | **{statistics.median(copied) / taken:.2f}** | "
               f"**{statistics.median(written) / taken:.2f}** |")  # fmt: skip
    remove(source)


def memories(options, kind, weights, scratch):
    out = scratch / "out"
    for memory in MEMORIES:
        got = peak(options, lambda launch: reshard(launch, weights, out, "tp=4", kind, "--memory", memory), scratch)
        remove(out)
        yield f"| {kind} | tp=1 → tp=4 | {memory} | {got:.0f} MiB |"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tpx", default=str(HERE.parent / "build/release/cmd/tpx"))
    parser.add_argument("--scratch", help="folder on the file system to measure; 8 GiB are needed")
    parser.add_argument("--layers", type=int, default=4, help="a multiple of 4")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--formats", default="torch_dist,dcp")
    parser.add_argument("--cold", action="store_true")
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()

    lines = []

    def say(line):
        lines.append(line)
        print(line, flush=True)

    with tempfile.TemporaryDirectory(dir=options.scratch) as folder:
        scratch = Path(folder)
        total = llama.write(scratch / "weights", options.layers)
        cache = "cold" if options.cold else "warm"
        say(f"`bench/reshard.py` on {machine(scratch)}: {total / 2**30:.2f} GiB, {options.ranks} ranks, {cache}, seconds as "
            f"median (least–most) of {options.repeats}, mpirun's start included.\n")  # fmt: skip
        say("| format | change | `cp -r` + sync | two `dd` | tpx reshard | GB/s | cp / tpx | dd / tpx |")
        say("|---|---|---|---|---|---|---|---|")
        for kind in options.formats.split(","):
            for row in times(options, kind, scratch / "weights", scratch):
                say(row)
        say("\n| format | change | `--memory` | peak of a rank |\n|---|---|---|---|")
        for kind in options.formats.split(","):
            for row in memories(options, kind, scratch / "weights", scratch):
                say(row)
    if options.write:
        from results import put

        put("reshard beside cp, cold" if options.cold else "reshard beside cp", "\n".join(lines))


if __name__ == "__main__":
    main()
