#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""reshard.py [--tpx TPX] [--scratch DIR] [--layers N] [--repeats N] [--ranks N] [--formats F,F] [--write]

Times `mpirun tpx reshard` beside `cp -r` of the same checkpoint, each file of both synced, both warm and in turn, and prints the ratio: 1 is
as fast as copying. Then the peak memory of a rank beside what --memory allows. --write puts both tables in RESULTS.md.
"""
import argparse
import statistics
import sys
import tempfile
from pathlib import Path

import llama
from timing import machine, remove, run, side_by_side, size, spread

HERE = Path(__file__).resolve().parent
CHANGES = {
    "torch_dist": [("tp=1", "tp=4"), ("tp=4", "tp=2"), ("tp=1", "pp=4")],
    "dcp": [("tp=1", "tp=4"), ("tp=4", "tp=2"), ("tp=1", "fsdp=4")],
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
        ours, theirs = side_by_side(
            lambda to=after: run(reshard(launch, source, out, to, kind)), lambda: run(copy), source, out, options.repeats
        )
        ratio = statistics.median(theirs) / statistics.median(ours)
        rate = size(source) / statistics.median(ours) / 1e9
        yield f"| {kind} | {before} → {after} | {spread(theirs)} | {spread(ours)} | {rate:.2f} | **{ratio:.2f}** |"
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
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()

    lines = []

    def say(line):
        lines.append(line)
        print(line, flush=True)

    with tempfile.TemporaryDirectory(dir=options.scratch) as folder:
        scratch = Path(folder)
        total = llama.write(scratch / "weights", options.layers)
        say(f"`bench/reshard.py` on {machine(scratch)}: {total / 2**30:.2f} GiB, {options.ranks} ranks, warm, seconds as "
            f"median (least–most) of {options.repeats}, mpirun's start included.\n")  # fmt: skip
        say("| format | change | `cp -r` + sync | tpx reshard | GB/s | cp / tpx |\n|---|---|---|---|---|---|")
        for kind in options.formats.split(","):
            for row in times(options, kind, scratch / "weights", scratch):
                say(row)
        say("\n| format | change | `--memory` | peak of a rank |\n|---|---|---|---|")
        for kind in options.formats.split(","):
            for row in memories(options, kind, scratch / "weights", scratch):
                say(row)
    if options.write:
        from results import put

        put("reshard beside cp", "\n".join(lines))


if __name__ == "__main__":
    main()
