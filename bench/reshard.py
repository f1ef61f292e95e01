#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""reshard.py [--tpx TPX] [--scratch DIR] [--layers N] [--repeats N] [--ranks N] [--formats F,F] [--cold]
           [--reflinks | --pieces] [--write]

Times, in turn, `mpirun tpx reshard`, `cp -r` of the same checkpoint (both sync each file), and two `dd oflag=direct`
that together write as many bytes of zeros. Prints the ratios of tpx to both; 1 means equally fast. The source is in the page cache, except with
--cold. Then prints the peak memory of a rank for several values of --memory. --write stores both tables in RESULTS.md;
with --cold, in a separate section.

--reflinks measures XFS and btrfs on mounted image files in --scratch, which requires root: the part of the output that
shares its blocks with the source, the space that it takes, and the time compared with `cp -r --reflink=never`.

--pieces reads and writes a million pieces of 2,000 tensors, 0.5 GB: seconds, and the peak memory of a rank.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import llama
from timing import cool, in_turn, machine, output, remove, run, size, spread, warm

HERE = Path(__file__).resolve().parent
CHANGES = {
    "torch_dist": [("tp=1", "tp=4"), ("tp=4", "tp=2"), ("tp=1", "pp=4")],
    "dcp": [("tp=1", "tp=4"), ("tp=4", "tp=2"), ("tp=1", "fsdp=4"), ("fsdp=1", "fsdp=512"), ("fsdp=512", "fsdp=1")],
}
# Changes one after the other; each chain starts from the weights.
CHAINS = [
    [("safetensors", "tp=1")],
    [("dcp", "tp=1"), ("dcp", "fsdp=4"), ("dcp", "fsdp=2"), ("safetensors", "tp=1")],
    [("torch_dist", "tp=1"), ("torch_dist", "pp=4"), ("torch_dist", "tp=4")],
]
MEMORIES = ["64MiB", "256MiB", "1GiB"]
TENSORS = 2000
MANY = [("tp=1", "fsdp=512", None), ("tp=1", "fsdp=512", "3GiB"), ("fsdp=512", "fsdp=1", None), ("fsdp=512", "fsdp=512", None)]


def reshard(arguments, source, out, to, kind, *more):
    return [*arguments, "reshard", str(source), str(out), "--to", to, "--format", kind, "--quiet", *more]


def peak(options, command_of, scratch):
    """Peak resident memory of a rank in MiB; `command_of` returns the command for a given launcher."""
    log = scratch / "peak"
    log.unlink(missing_ok=True)
    run(command_of(["mpirun", "-n", str(options.ranks), sys.executable, str(HERE / "peak.py"), str(log), options.tpx]))
    return max(int(line) for line in log.read_text().split()) / 1024


def two_writers(out, total):
    """A command that writes `total` bytes with two processes, past the page cache."""
    blocks = -(-total // 2 // 2**24)
    write = f'dd if=/dev/zero of="{out}/$k" bs=16M count={blocks} oflag=direct conv=fsync 2>/dev/null'
    return ["sh", "-c", f'mkdir "{out}" && for k in 1 2; do {write} & done; wait']


def times(options, kind, weights, scratch):
    """Yields a row for each change of layout of this format."""
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


def used(folder):
    subprocess.run(["sync", "-f", folder], check=True)
    time.sleep(1)  # XFS frees the space of removed files with a delay
    state = os.statvfs(folder)
    return (state.f_blocks - state.f_bfree) * state.f_frsize


def sharing(options, kind, at):
    """Yields a row for each change of CHAINS on the file system that is mounted at `at`."""
    launch = ["mpirun", "-n", str(options.ranks), options.tpx]
    weights, source, out = at / "weights", at / "source", at / "out"
    llama.write(weights, options.layers)
    for chain in CHAINS:
        remove(source)
        before = ("safetensors", "tp=1")
        for after in chain:
            have = source if source.exists() else weights
            command = reshard(launch, have, out, after[1], after[0])
            room = used(at)
            report = json.loads(output([word for word in command if word != "--quiet"] + ["--json"]))
            written, room = report["bytes_written"], used(at) - room
            copy = ["sh", "-c", f'cp -r --reflink=never "{have}" "{out}" && find "{out}" -type f -exec sync {{}} +']
            functions = [lambda: run(command), lambda: run(copy)]
            ours, copied = in_turn(functions, have, out, options.repeats, cool if options.cold else warm)
            ratio = statistics.median(copied) / statistics.median(ours)
            yield (f"| {kind} | {' '.join(before)} → {' '.join(after)} | {report['bytes_shared'] / written:.1%} | "
                   f"{room / written:.1%} | {spread(copied)} | {spread(ours)} | **{ratio:.2f}** |")  # fmt: skip
            run(command)
            remove(source)
            out.rename(source)
            before = after


def mounted(kind, scratch, total):
    """Makes and mounts a file system of this kind; returns its folder."""
    disk, at = scratch / "disk", scratch / "at"
    at.mkdir(exist_ok=True)
    with open(disk, "wb") as file:
        file.truncate(4 * total + (2 << 30))
    output([f"mkfs.{kind}", "-q", disk])
    subprocess.run(["mount", "-o", "loop", disk, at], check=True)
    return at


def reflinks(options, scratch, say):
    total = 2 * sum(shape[0] * (shape[1] if len(shape) == 2 else 1) for _, shape in llama.shapes(options.layers))
    say(f"`bench/reshard.py --reflinks` on {machine(scratch)}, in a file: {total / 2**30:.2f} GiB, {options.ranks} ranks, "
        f"{'cold' if options.cold else 'warm'}, seconds as median (least–most) of {options.repeats}, including the start "
        "of mpirun.\n")  # fmt: skip
    say("| file system | change | shared blocks | space taken | `cp -r` + sync | tpx reshard | cp / tpx |")
    say("|---|---|---|---|---|---|---|")
    for kind in ["xfs", "btrfs"]:
        at = mounted(kind, scratch, total)
        try:
            for row in sharing(options, kind, at):
                say(row)
        finally:
            subprocess.run(["umount", at], check=True)
            (scratch / "disk").unlink()


def write_tensors(folder):
    """Writes a sparse file of TENSORS zero tensors with 512 rows each: a million pieces on 512 ranks."""
    folder.mkdir()
    size = 512 * 256 * 2
    header = {f"layers.{k}.weight": {"dtype": "BF16", "shape": [512, 256], "data_offsets": [k * size, (k + 1) * size]}
              for k in range(TENSORS)}  # fmt: skip
    text = json.dumps(header).encode()
    with open(folder / "model.safetensors", "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        file.truncate(8 + len(text) + TENSORS * size)


def many_pieces(options, scratch, say):
    say(f"`bench/reshard.py --pieces` on {machine(scratch)}: {TENSORS} tensors of [512, 256] bf16, of which each of 512 "
        f"ranks has a piece, DCP, {options.ranks} ranks, load {os.getloadavg()[0]:.0f} at the start.\n")  # fmt: skip
    say("| change | `--memory` | pieces read and written | seconds | peak of a rank |")
    say("|---|---|---|---|---|")
    launch = ["mpirun", "-n", str(options.ranks), options.tpx]
    write_tensors(scratch / "weights")
    made = {"tp=1": scratch / "weights", "fsdp=512": scratch / "pieces"}
    run(reshard(launch, made["tp=1"], made["fsdp=512"], "fsdp=512", "dcp"))
    for before, after, memory in MANY:
        out, limit = scratch / "out", ["--memory", memory] if memory else []
        report = json.loads(output([*launch, "reshard", made[before], out, "--to", after, "--format", "dcp", "--dry-run", "--json", *limit]))
        taken = run(reshard(launch, made[before], out, after, "dcp", *limit))
        remove(out)
        most = peak(options, lambda launch: reshard(launch, made[before], out, after, "dcp", *limit), scratch)
        remove(out)
        read = TENSORS if before == "tp=1" else TENSORS * 512
        say(f"| {before} → {after} | {memory or ''} | {read:,} and {report['pieces']:,} | {taken:.1f} | {most:.0f} MiB |")


def beside_cp(options, scratch, say):
    total = llama.write(scratch / "weights", options.layers)
    cache = "cold" if options.cold else "warm"
    say(f"`bench/reshard.py` on {machine(scratch)}: {total / 2**30:.2f} GiB, {options.ranks} ranks, {cache}, seconds as "
        f"median (least–most) of {options.repeats}, including the start of mpirun.\n")  # fmt: skip
    say("| format | change | `cp -r` + sync | two `dd` | tpx reshard | GB/s | cp / tpx | dd / tpx |")
    say("|---|---|---|---|---|---|---|---|")
    for kind in options.formats.split(","):
        for row in times(options, kind, scratch / "weights", scratch):
            say(row)
    say("\n| format | change | `--memory` | peak of a rank |\n|---|---|---|---|")
    for kind in options.formats.split(","):
        for row in memories(options, kind, scratch / "weights", scratch):
            say(row)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tpx", default=str(HERE.parent / "build/release/cmd/tpx"))
    parser.add_argument("--scratch", help="folder on the file system to measure; needs 8 GiB")
    parser.add_argument("--layers", type=int, default=4, help="a multiple of 4")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--formats", default="torch_dist,dcp")
    parser.add_argument("--cold", action="store_true")
    others = parser.add_mutually_exclusive_group()
    others.add_argument("--reflinks", action="store_true")
    others.add_argument("--pieces", action="store_true")
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()

    lines = []

    def say(line):
        lines.append(line)
        print(line, flush=True)

    with tempfile.TemporaryDirectory(dir=options.scratch) as folder:
        scratch = Path(folder)
        (reflinks if options.reflinks else many_pieces if options.pieces else beside_cp)(options, scratch, say)
    say(f"\nLoad at the end: {os.getloadavg()[0]:.0f}.")
    if options.write:
        from results import put

        name = "reshard that shares blocks" if options.reflinks else "reshard: a million pieces" if options.pieces else "reshard beside cp"
        name += f", {options.layers} layers" if options.layers != 4 and not options.pieces else ""
        put(f"{name}, cold" if options.cold else name, "\n".join(lines))


if __name__ == "__main__":
    main()
