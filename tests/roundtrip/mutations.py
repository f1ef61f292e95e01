# SPDX-License-Identifier: Apache-2.0
"""mutations.py TPX: verify detects a checkpoint that was damaged after its digests were recorded, and names a tensor or
a file; reshard refuses damage that it can see, never passes damaged state on as the original, and leaves nothing
behind.
"""
import io
import random
import re
import shutil
import sys
import tempfile
import zipfile
from pathlib import Path

import reader
from tool import ROOT, in_parallel, tpx

DATA = ROOT / "testdata"


def payload_files(folder):
    return sorted(path for path in folder.rglob("*") if path.suffix in (".distcp", ".safetensors"))


def flip(folder, random_source):
    """Flips one bit of a payload byte of one file; a byte between payloads would not damage any tensor."""
    path = random_source.choice(payload_files(folder))
    data = bytearray(path.read_bytes())
    at = random_source.choice(_payload_bytes(path, data))
    data[at] ^= 1 << random_source.randrange(8)
    path.write_bytes(data)
    return f"bit flipped in byte {at} of {path.name}"


def _payload_bytes(path, data):
    """Positions in the file that contain elements of tensors; for a torch.save archive, the first, middle and last."""
    if path.suffix == ".safetensors":
        return range(8 + int.from_bytes(data[:8], "little"), len(data))
    positions = []
    for begin, length in reader.tensor_items(path):
        archive = zipfile.ZipFile(io.BytesIO(data[begin : begin + length]))
        record = next(item for item in archive.infolist() if item.filename.endswith("/data/0"))
        at = begin + record.header_offset
        names = int.from_bytes(data[at + 26 : at + 28], "little") + int.from_bytes(data[at + 28 : at + 30], "little")
        first = at + 30 + names
        positions += [first, first + record.file_size // 2, first + record.file_size - 1]
    return positions


def swap(folder, random_source):
    a, b = random_source.sample(payload_files(folder), 2)
    first, second = a.read_bytes(), b.read_bytes()
    a.write_bytes(second)
    b.write_bytes(first)
    return f"{a.name} and {b.name} swapped"


def cut(folder, random_source):
    path = random_source.choice(payload_files(folder))
    size = path.stat().st_size
    kept = random_source.choice([0, 1, size // 2, size - 1])
    with open(path, "r+b") as file:
        file.truncate(kept)
    return f"{path.name} cut from {size} to {kept} bytes"


def drop(folder, random_source):
    path = random_source.choice(payload_files(folder))
    path.unlink()
    return f"{path.name} dropped"


def mutated(name, mutate, seed):
    """Faults of tpx with this damage to this checkpoint of testdata/."""
    with tempfile.TemporaryDirectory() as scratch:
        copy, out = Path(scratch, "copy"), Path(scratch, "out")
        shutil.copytree(DATA / name, copy)
        kept = tpx("verify", copy, "--write", "--quiet")
        if kept.returncode:
            return [f"verify --write: exit {kept.returncode}: {kept.stderr.strip()}"]
        if tpx("verify", copy, "--quiet").returncode:
            return ["verify does not accept the digests it kept"]
        what = mutate(copy, random.Random(seed))
        faults = []

        seen = tpx("verify", copy, "--quiet")
        said = seen.stdout + seen.stderr
        if seen.returncode not in (1, 3):
            faults.append(f"{what}: verify ends with {seen.returncode}: {said.strip()}")
        elif not re.search(r"weight|\.distcp|\.safetensors", said):
            faults.append(f"{what}: verify names neither tensor nor file: {said.strip()}")
        against = tpx("verify", DATA / name, copy, "--quiet")
        if against.returncode not in (1, 3):
            faults.append(f"{what}: verify against the original ends with {against.returncode}")

        ranks = 1 + seed % 2
        done = tpx("reshard", copy, out, "--to", "tp=2", "--quiet", ranks=ranks)
        if done.returncode == 0:
            if mutate is not flip or tpx("verify", DATA / name, out, "--quiet").returncode != 3:
                faults.append(f"{what}: reshard passes it on")
        elif len(done.stderr.strip().splitlines()) < 1 or done.returncode not in (1, 3):
            faults.append(f"{what}: reshard ends with {done.returncode}: {done.stderr.strip()}")
        left = [path.name for path in Path(scratch).iterdir() if path.name not in ("copy", "out")]
        left += ["out"] * (done.returncode != 0 and out.exists())
        return faults + ([f"{what}: left behind: {left}"] if left else [])


def jobs():
    for name in ("llama-small/hf", "llama-small/megatron-tp2pp2", "llama-rope/hf", "llama-rope/dcp-fsdp2"):
        for mutate in (flip, swap, cut, drop):
            if mutate is swap and name.endswith("hf"):
                continue  # one file
            for seed in range(8 if mutate is flip else 4):
                yield mutated, name, mutate, seed


if __name__ == "__main__":
    sys.exit(in_parallel(list(jobs())))
