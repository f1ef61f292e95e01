#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""forecast.py [--tpx TPX] [--scratch DIR] [--layers N] [--write]

The forecast of `tpx migrate --dry-run` for Llama 3.1 405B with Adam (f32, 4.9 TB) on 64 hosts of 8 devices, with two copies of every
file, when two hosts are lost: time, messages, metadata and memory of the change, and the time of the dry run itself. The stores
contain real metadata, and holes instead of tensor data (tests/support/sparse_stores.cpp). Needs PyTorch.
"""
import argparse
import io
import json
import math
import os
import pickle
import resource
import struct
import tempfile
import time
import zlib
from collections import OrderedDict
from pathlib import Path

import torch
from torch.distributed.checkpoint.filesystem import _StorageInfo
from torch.distributed.checkpoint.metadata import (ChunkStorageMetadata, Metadata, MetadataIndex,
                                                   TensorProperties, TensorStorageMetadata)

from results import put
from timing import machine, output, run

ROOT = Path(__file__).resolve().parents[1]
HOSTS, LOST = 64, ("host3", "host17")
BEFORE = "tp=8,pp=16,first=7,last=7,fsdp=4"
AFTER = ("tp=8,pp=15,first=5,last=4,fsdp=4", "tp=8,pp=16,first=7,last=7,fsdp=3")
SOURCE = 8  # ranks that saved the checkpoint
HIDDEN, KV, FFN, VOCABULARY = 16384, 1024, 53248, 128256


def parameters(layers):
    """Yields (name, shape) for each parameter, with torchtitan's names."""
    yield "tok_embeddings.weight", (VOCABULARY, HIDDEN)
    for number in range(layers):
        layer = f"layers.{number}."
        for name, shape in (("attention.wq", (HIDDEN, HIDDEN)), ("attention.wk", (KV, HIDDEN)), ("attention.wv", (KV, HIDDEN)),
                            ("attention.wo", (HIDDEN, HIDDEN)), ("attention_norm", (HIDDEN,)), ("ffn_norm", (HIDDEN,)),
                            ("feed_forward.w1", (FFN, HIDDEN)), ("feed_forward.w2", (HIDDEN, FFN)),
                            ("feed_forward.w3", (FFN, HIDDEN))):  # fmt: skip
            yield f"{layer}{name}.weight", shape
    yield "norm.weight", (HIDDEN,)
    yield "output.weight", (VOCABULARY, HIDDEN)


class Storage:
    """Pickled as the first storage of a torch.save archive."""


class Tensor:
    def __init__(self, shape):
        self.shape = shape

    def __reduce__(self):
        stride = (self.shape[1], 1) if len(self.shape) == 2 else (1,)
        return torch._utils._rebuild_tensor_v2, (Storage(), 0, self.shape, stride, False, OrderedDict())


class Pickler(pickle.Pickler):
    def persistent_id(self, thing):
        return ("storage", torch.FloatStorage, "0", "cpu", self.numel) if isinstance(thing, Storage) else None


def archive(shape):
    """The bytes that torch.save writes for an f32 tensor: those before its data and those after it."""
    body = io.BytesIO()
    pickler = Pickler(body, 2)
    pickler.numel = math.prod(shape)
    pickler.dump(Tensor(shape))
    before, directory, at, hole = b"", b"", 0, 4 * math.prod(shape)
    after = b""
    for name, data, length in ((b"archive/data.pkl", body.getvalue(), 0), (b"archive/byteorder", b"little", 0),
                               (b"archive/data/0", b"", hole), (b"archive/version", b"3\n", 0)):  # fmt: skip
        fields = struct.pack("<HHHHIIIH", 0, 0, 0, 0, zlib.crc32(data), length or len(data), length or len(data), len(name))
        directory += b"PK\1\2" + struct.pack("<HH", 0, 0) + fields + struct.pack("<HHHHII", 0, 0, 0, 0, 0, at) + name
        entry = b"PK\3\4" + struct.pack("<H", 0) + fields + struct.pack("<H", 0) + name + data
        before, after = (before, after + entry) if length == 0 and b"data/0" in before else (before + entry, after)
        at += len(entry) + length
    end = b"PK\5\6" + struct.pack("<HHHHIIH", 0, 0, 4, 4, len(directory), at, 0)
    return before, after + directory + end


def write_source(folder, layers):
    """Writes a DCP checkpoint as FSDP saves it on SOURCE ranks, with holes instead of data; returns the bytes of its tensors."""
    state, storage, keys, bytes_of_data = {}, {}, {}, 0
    folder.mkdir()
    files = [open(folder / f"__{rank}_0.distcp", "wb") for rank in range(SOURCE)]
    for name, shape in parameters(layers):
        for path in (("model", name), ("optim", "state", name, "exp_avg"), ("optim", "state", name, "exp_avg_sq")):
            key, rows, chunks = ".".join(path), shape[0] // SOURCE, []
            for rank, file in enumerate(files):
                sizes, origin = torch.Size((rows, *shape[1:])), torch.Size((rank * rows, *[0] * (len(shape) - 1)))
                chunks.append(ChunkStorageMetadata(origin, sizes))
                before, after = archive(tuple(sizes))
                begin = file.tell()
                file.write(before)
                file.seek(4 * sizes.numel(), os.SEEK_CUR)
                file.write(after)
                storage[MetadataIndex(key, origin, rank)] = _StorageInfo(f"__{rank}_0.distcp", begin, file.tell() - begin)
                bytes_of_data += 4 * sizes.numel()
            state[key] = TensorStorageMetadata(TensorProperties(torch.float32), torch.Size(shape), chunks)
            keys[key] = path
    for file in files:
        file.close()
    with open(folder / ".metadata", "wb") as file:
        pickle.dump(Metadata(state, keys, storage), file)
    return bytes_of_data


def forecast(tpx, folder, hosts, lost, layout):
    """The JSON of a dry run that changes the layout on the remaining hosts, one process on each; its seconds and CPU seconds."""
    command = ["mpirun", "-n", str(hosts - len(lost)), tpx, "migrate", "--store", f"{folder}/{{host}}", "--emulate", "--hosts",
               f"{hosts}x8", "--lost", ",".join(lost), "--to", layout, "--replicas", "2", "--dry-run", "--json", "--quiet",
               "--patience", "3600"]  # fmt: skip
    before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    text = output(command)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return json.loads(text), time.perf_counter() - started, cpu


def row(done, layout, seconds, cpu):
    own = done["forecast"]
    busiest = own["bottleneck"]
    return (f"| {layout} | {done['bytes_between_hosts'] / 1e12:.2f} TB | {own['plan_seconds']:.0f} + "
            f"{own['move_seconds']:.0f} = **{own['seconds']:.0f} s** | {busiest['resource']}, "
            f"{busiest['bytes'] / 1e9:.0f} GB | {own['messages'] / 1e6:.1f} million | {own['metadata_reads']:,} reads, "
            f"{own['metadata_bytes_read'] / 1e6:.0f} MB; {own['metadata_bytes_shared'] / 1e6:.1f} MB sent; manifest "
            f"{own['manifest_bytes'] / 1e3:.0f} kB | {own['memory'] / 1e9:.2f} GB | {seconds:.0f} s, {cpu:.0f} s CPU |")  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[1])
    parser.add_argument("--tpx", default=ROOT / "build/release/cmd/tpx", type=Path)
    parser.add_argument("--scratch", type=Path)
    parser.add_argument("--layers", type=int, default=126)
    parser.add_argument("--write", action="store_true", help="put the table into RESULTS.md")
    options = parser.parse_args()
    tpx = options.tpx.resolve()
    with tempfile.TemporaryDirectory(dir=options.scratch) as name:
        folder = Path(name)
        total = write_source(folder / "source", options.layers)
        run([tpx.parents[1] / "tests/sparse_stores", folder / "source", f"{folder}/stores/{{host}}", f"{HOSTS}x8", BEFORE, "2", "1000"])
        lines = [f"`bench/forecast.py` on {machine(folder)}: {total / 1e12:.2f} TB, {BEFORE} on {HOSTS} hosts, without {' and '.join(LOST)}; "
                 "NICs of 25 GB/s and disks that read 5 and write 2 GB/s are assumed. The seconds are the time to plan plus "
                 "the time to move the state, including the comparison with checksums; memory is that of one process per host, with 537 MB of buffers", "",
                 "| to | between hosts | forecast | busiest | messages | metadata | memory | the dry run took |", "|---|---|---|---|---|---|---|---|"]  # fmt: skip
        for layout in AFTER:
            done, seconds, cpu = forecast(tpx, folder / "stores", HOSTS, LOST, layout)
            lines.append(row(done, layout, seconds, cpu))
            print(lines[-1], flush=True)
        lines[0] += f"; load {os.getloadavg()[0]:.0f} at the end"
    print("\n".join(lines))
    if options.write:
        put("migrate of 405B, forecast", "\n".join(lines))


if __name__ == "__main__":
    main()
