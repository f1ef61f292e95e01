#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Executes a plan for a checkpoint: execute_plan.py PLAN OUT

Simulates all hosts: gives each host the bytes that its old ranks hold, sends the transfers of the plan in order, and
writes the tensors that each new rank then holds to OUT/rank-N.safetensors. tpx-plan(5) describes plan files. Requires
numpy and h5py."""
import json
import sys
from pathlib import Path
import h5py
import numpy as np

STORAGE = 0xFFFFFFFF  # the sender of bytes that no host holds


class Table(dict):
    """The columns of one group of the plan; in the column "box", a list of (begin, end), one for each axis of the tensor."""
    def __init__(self, plan, group):
        for name, column in plan[group].items():
            self[name] = column.asstr()[:] if column.dtype.kind == "S" else column[:].astype(int)
        if "box" in self:
            axes = plan["tensors/axes"][:][self.tensor]
            self["box"] = [tuple(map(tuple, box[:n].tolist())) for box, n in zip(self.box, axes)]

    __getattr__ = dict.__getitem__

    def rows(self, *names):
        return zip(*(self[name] for name in names))


def known(data):
    """The bytes of `data`, all of which must have arrived."""
    assert not np.ma.is_masked(data), "bytes are needed where they are not"
    return data.data


def is_within(box, outer):
    return all(o[0] <= b and e <= o[1] for (b, e), o in zip(box, outer))


def part(box, outer):
    """The slices that select `box` in an array of the elements of `outer`."""
    return tuple(slice(b - o[0], e - o[0]) for (b, e), o in zip(box, outer))


def read_tensors(plan, everything, dtypes):
    """The whole tensors, whose boxes are `everything`, read from the places in the files that the plan names."""
    tensors = [np.empty([n for _, n in box], dtype) for box, dtype in zip(everything, dtypes)]
    folder = Path(plan.attrs["checkpoint"].decode())
    files = [np.memmap(folder / path, np.uint8, "r") for path in Table(plan, "source_files").path]
    for t, file, offset, box, strides in Table(plan, "source").rows("tensor", "file", "offset", "box", "strides"):
        shape, steps = [e - b for b, e in box], strides[:len(box)] * dtypes[t].itemsize
        tensors[t][part(box, everything[t])] = np.ndarray(shape, dtypes[t], files[file], offset, steps)
    return tensors


def write_safetensors(path, arrays):
    header, end = {}, 0
    for name, (dtype, array) in arrays.items():
        header[name] = {"dtype": dtype.upper(), "shape": array.shape, "data_offsets": [end, end := end + array.nbytes]}
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + b"".join(a.tobytes() for _, a in arrays.values()))


def execute(plan, out):
    tensors, parcels, cells, ranks = (Table(plan, group) for group in ("tensors", "parcels", "cells", "ranks"))
    out.mkdir()
    assert (tensors.source_dtype == tensors.target_dtype).all(), "values would have to be cast"
    cells_of = [np.flatnonzero(cells.tensor == t) for t in range(len(tensors.name))]
    # Elements as opaque bytes; a tensor without elements has no cells.
    dtypes = [np.dtype(f"V{parcels.element[cells.parcel[own[0]]] if own.size else 1}") for own in cells_of]
    everything = [[(0, n) for n in shape[:axes]] for shape, axes in tensors.rows("shape", "axes")]
    whole = read_tensors(plan, everything, dtypes)
    numbers = [*range(len(plan["hosts/name"])), STORAGE]
    # The bytes of each parcel on each host; bytes that have not arrived are masked.
    hosts = {h: [np.ma.masked_all(n, np.uint8) for n in parcels.bytes] for h in numbers}
    holders = np.split(plan["holders/ranks"][:].astype(int), plan["holders/begin"][1:-1].astype(int))
    for p, t, box, begin in cells.rows("parcel", "tensor", "box", "begin"):
        values = np.frombuffer(whole[t][part(box, everything[t])].tobytes(), np.uint8)
        for h in {STORAGE, *ranks.old_host[holders[parcels.holders[p]]]} - {-1}:
            hosts[h][p][begin:begin + len(values)] = values
    for p, source, target, begin, end in Table(plan, "transfers").rows("parcel", "from", "to", "begin", "end"):
        hosts[target][p][begin:end] = known(hosts[source][p][begin:end])
    last_devices, held = np.cumsum(plan["hosts/gpus"][:].astype(int)), Table(plan, "held_after")
    for rank, device in enumerate(ranks.new_device):
        host, arrays = hosts[np.searchsorted(last_devices, device, "right")], {}
        for t, box in ((held.tensor[i], held.box[i]) for i in np.flatnonzero(held.rank == rank)):
            array = np.empty([e - b for b, e in box], dtypes[t])
            arrays[f"{tensors.name[t]} [{', '.join(f'{b}:{e}' for b, e in box)}]"] = tensors.target_dtype[t], array
            for c in (c for c in cells_of[t] if is_within(cells.box[c], box)):
                at, begin = part(cells.box[c], box), cells.begin[c]
                values = known(host[cells.parcel[c]][begin:begin + array[at].nbytes])
                array[at] = values.view(dtypes[t]).reshape(array[at].shape)
        write_safetensors(out / f"rank-{rank}.safetensors", arrays)


if __name__ == "__main__":
    execute(h5py.File(sys.argv[1]), Path(sys.argv[2]))
