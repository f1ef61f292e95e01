#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""many_files.py [--scratch DIR] [--size GIB] [--repeats N] [--write]

The rate at which plain programs write, without tpx: four processes write the same bytes into 4 files and into 512 files. Each file
is written from beginning to end, or one piece per file in turn, the order in which a checkpoint of 512 shards is written.
Pieces are written past the page cache or through it; every file is synced. The last column is the speed relative to 4 files.
"""
import argparse
import mmap
import os
import statistics
import tempfile
import time
import traceback
from pathlib import Path

from timing import machine, remove, spread

WRITERS = 4
PIECE = 128 << 10
# files, bytes of a write, past the page cache, all files in turn
WAYS = [(4, 16 << 20, True, False), (512, 16 << 20, True, False), (512, PIECE, True, True), (512, PIECE, False, True)]


def write_share(folder, files, length, piece, direct, in_turn):
    """Writes `files` of `length` bytes each, and syncs them."""
    flags = os.O_WRONLY | os.O_CREAT | (os.O_DIRECT if direct else 0)
    opened = [os.open(folder / str(file), flags) for file in files]
    memory = mmap.mmap(-1, piece)  # aligned to a page
    memory.write(os.urandom(1 << 12) * (piece >> 12))
    for file in opened:
        os.ftruncate(file, length)
    places = [(file, at) for file in opened for at in range(0, length, piece)]
    if in_turn:
        places.sort(key=lambda place: place[1])
    for file, at in places:
        part = memoryview(memory)[: min(piece, length - at)]
        if os.pwrite(file, part, at) != len(part):
            raise OSError("a short write")
    for file in opened:
        os.fsync(file)
        os.close(file)


def seconds(folder, total, files, piece, direct, in_turn):
    """Seconds until all writers have finished."""
    folder.mkdir()
    os.sync()
    started = time.perf_counter()
    children = []
    for writer in range(WRITERS):
        child = os.fork()
        if child == 0:
            try:
                write_share(folder, range(writer, files, WRITERS), total // files, min(piece, total // files), direct, in_turn)
                os._exit(0)
            except BaseException:
                traceback.print_exc()
                os._exit(1)
        children.append(child)
    if any([os.waitpid(child, 0)[1] != 0 for child in children]):
        raise SystemExit("many_files.py: a writer failed")
    taken = time.perf_counter() - started
    remove(folder)
    return taken


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[1])
    parser.add_argument("--scratch", type=Path)
    parser.add_argument("--size", type=int, default=2, help="GiB that are written")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--write", action="store_true", help="put the table into RESULTS.md")
    options = parser.parse_args()
    total = options.size << 30
    with tempfile.TemporaryDirectory(dir=options.scratch) as scratch:
        taken = [[] for _ in WAYS]
        for turn in range(options.repeats + 1):  # the first turn is not counted: it takes memory from the kernel
            for way, list_ in zip(WAYS, taken):
                list_.append(seconds(Path(scratch) / "files", total, *way))
        lines = [f"`bench/many_files.py` on {machine(scratch)}: {options.size} GiB by {WRITERS} writers, seconds as median "
                 f"(least–most) of {options.repeats}; load {os.getloadavg()[0]:.0f} at the end", "",
                 "| files | written | seconds | GB/s | relative to 4 files |", "|---|---|---|---|---|"]  # fmt: skip
    best = statistics.median(taken[0][1:])
    for (files, piece, direct, in_turn), list_ in zip(WAYS, taken):
        median = statistics.median(list_[1:])
        order = f"in turn, {piece >> 10} KiB of each" if in_turn else "one after the other"
        cache = "past the page cache" if direct else "through the page cache"
        lines.append(f"| {files} | {order}, {cache} | {spread(list_[1:])} | {total / median / 1e9:.2f} | **{best / median:.2f}** |")
    print("\n".join(lines))
    if options.write:
        from results import put

        put("many files, by plain writers", "\n".join(lines))


if __name__ == "__main__":
    main()
