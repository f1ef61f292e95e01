#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""catalogue.py TPX: CPU seconds and peak memory of `tpx inspect` for checkpoints of a million pieces; CPU seconds hardly
depend on other load of the machine. The files are sparse; the metadata of DCP is written by PyTorch, and the last column is
the time in which Python loads it. Needs PyTorch."""
import json
import os
import pickle
import sys
import tempfile
import time
from pathlib import Path

import torch
from torch.distributed.checkpoint.filesystem import _StorageInfo
from torch.distributed.checkpoint.metadata import (ChunkStorageMetadata, Metadata, MetadataIndex,
                                                   TensorProperties, TensorStorageMetadata)

PIECES = 1_000_000


def write_dcp(folder, tensors, ranks=64):
    """Writes a DCP checkpoint of `tensors` tensors and a million pieces, whose payloads are consecutive in `ranks` files."""
    each, row = PIECES // tensors, 64
    state, storage, ends = {}, {}, [0] * ranks
    for number in range(tensors):
        name = f"model.layers.{number}.weight"
        chunks = []
        for piece in range(each):
            offsets = torch.Size([piece, 0])
            chunks.append(ChunkStorageMetadata(offsets, torch.Size([1, row])))
            rank = (number + piece) % ranks
            storage[MetadataIndex(name, offsets, piece)] = _StorageInfo(f"__{rank}_0.distcp", ends[rank], 4 * row)
            ends[rank] += 4 * row
        state[name] = TensorStorageMetadata(TensorProperties(torch.float32), torch.Size([each, row]), chunks)
    folder.mkdir()
    with open(folder / ".metadata", "wb") as file:
        pickle.dump(Metadata(state, {name: (name,) for name in state}, storage), file)
    for rank, end in enumerate(ends):
        with open(folder / f"__{rank}_0.distcp", "wb") as file:
            file.truncate(end)


def write_safetensors(folder, files=64):
    """Writes a million tensors in `files` files with an index."""
    folder.mkdir()
    each, weight_map = PIECES // files, {}
    for number in range(files):
        name = f"model-{number + 1:05}-of-{files:05}.safetensors"
        header = {}
        for tensor in range(each):
            key = f"model.layers.{number * each + tensor}.weight"
            header[key] = {"dtype": "F32", "shape": [1, 64], "data_offsets": [256 * tensor, 256 * tensor + 256]}
            weight_map[key] = name
        text = json.dumps(header, separators=(",", ":")).encode()
        with open(folder / name, "wb") as file:
            file.write(len(text).to_bytes(8, "little") + text)
            file.truncate(8 + len(text) + 256 * each)
    (folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": weight_map}))


def measured(command):
    """CPU seconds and peak memory in MiB of a command."""
    child = os.fork()
    if child == 0:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        os.execvp(command[0], command)
    _, status, usage = os.wait4(child, 0)
    if status:
        sys.exit(f"{' '.join(map(str, command))}: failed")
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def main():
    tpx = sys.argv[1]
    print("| checkpoint | tpx, s | MiB | loading the metadata in Python, s |\n|---|---|---|---|")
    with tempfile.TemporaryDirectory() as parent:
        cases = [(f"DCP, {tensors:,} tensors", lambda folder, tensors=tensors: write_dcp(folder, tensors))
                 for tensors in (1000, 100_000)]
        for number, (name, write) in enumerate([*cases, ("safetensors, a million tensors in 64 files", write_safetensors)]):
            folder = Path(parent) / str(number)
            write(folder)
            runs = [measured([tpx, "inspect", str(folder)]) for _ in range(3)]
            python = ""
            if (folder / ".metadata").exists():
                begun = time.process_time()
                with open(folder / ".metadata", "rb") as file:
                    pickle.load(file)
                python = f"{time.process_time() - begun:.1f}"
            print(f"| {name} | {min(run[0] for run in runs):.2f} | {runs[0][1]:.0f} | {python} |", flush=True)


if __name__ == "__main__":
    main()
