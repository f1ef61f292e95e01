# SPDX-License-Identifier: Apache-2.0
"""write_plan.py model|checkpoint FOLDER [COLUMN]: writes FOLDER/change.plan from scratch, without tpx, as tpx-plan(5)
describes plans. The f32 tensor w, 4 x 4, is split between two hosts with a rank each (tp=2), and both need all of it
(dp=2): each sends its half to the other. "checkpoint" also writes a checkpoint of two files, FOLDER/ckpt. If COLUMN is
given, the plan is wrong: the first number of this column is increased by one."""
import json
import struct
import sys
from pathlib import Path
import h5py
import numpy as np

kind, folder = sys.argv[1], Path(sys.argv[2])
FROM, TO, BYTES, HALF, WINDOW = "tp=2", "dp=2", 64, 32, 128
HOSTS, RATE = ["n0", "n1"], 25e9
LOW, HIGH, WHOLE = [[0, 2], [0, 4]], [[2, 4], [0, 4]], [[0, 4], [0, 4]]


class Fingerprint:
    """FNV-1a of numbers and texts."""

    def __init__(self, *items):
        self.value = 0xCBF29CE484222325
        self.add(*items)

    def add(self, *items):
        for item in items:
            if isinstance(item, (list, tuple)):
                self.add(*item)
                continue
            if isinstance(item, str):
                data = struct.pack("<Q", len(item.encode())) + item.encode()
            else:
                data = struct.pack("<d", item) if isinstance(item, float) else struct.pack("<Q", item % 2**64)
            for byte in data:
                self.value = (self.value ^ byte) * 0x100000001B3 % 2**64


def crc64(data):
    crc = 0
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0xC96C5795D7870F42 if crc & 1 else 0)
    return crc


def column(letter, values):
    """An array of the narrowest type that holds all of `values`."""
    if letter == "S":
        return np.array([value.encode() for value in values], dtype=f"S{max([1, *map(len, values)])}")
    for size in (8,) if letter == "f" else (1, 2, 4, 8):
        array = np.array(values).astype(f"<{letter}{size}")
        if (array == np.array(values)).all():
            return array


def write_checkpoint():
    """Writes two safetensors files with half of w each, and returns where their bytes are."""
    (folder / "ckpt").mkdir()
    values, pieces, sizes = np.arange(16, dtype="<f4").tobytes(), [], []
    for rank, box in enumerate((LOW, HIGH)):
        sharding = json.dumps({"w": {"saved_offsets": [box[0][0], 0]}})
        header = json.dumps({"__metadata__": {"format": "pt", "DCP_VERSION": "1.0", "DCP_SHARDING_INFO": sharding},
                             "w": {"dtype": "F32", "shape": [2, 4], "data_offsets": [0, HALF]}}).encode()
        data = struct.pack("<Q", len(header)) + header + values[rank * HALF:(rank + 1) * HALF]
        (folder / "ckpt" / FILES[rank]).write_bytes(data)
        sizes.append(len(data))
        pieces.append((0, rank, len(data) - HALF, rank, box, [4, 1]))
    return pieces, sizes


FILES = [f"shard-0000{rank + 1}-model-00001-of-00001.safetensors" for rank in range(2)]
columns = {}  # by name: letter of the type, values


def group(name, /, **types_and_values):
    for column, (letter, values) in types_and_values.items():
        columns[f"{name}/{column}"] = letter, values


attributes = {"schema": "tpx.plan/3", "version": "by hand", "from": FROM, "to": TO, "state": "memory", "pinned": 0,
              "needed": 2 * BYTES, "kept": 0, "local": BYTES, "same_host": 0, "other_host": BYTES, "storage": 0,
              "crossing": BYTES, "bound": BYTES, "rounds": 1, "window": WINDOW,
              "sending_bytes": BYTES, "sending_seconds": BYTES / (2 * RATE)}
group("hosts", name=("S", HOSTS), gpus=("u", [1, 1]), nic=("f", [RATE, RATE]), disk_read=("f", [0, 0]),
      disk_write=("f", [0, 0]), memory=("f", [0, 0]), switch_group=("S", ["", ""]), rails=("u", [1, 1]),
      lost=("u", [0, 0]), spare=("u", [0, 0]), price=("i", [0, 0]))
group("loads", disk_read=("u", [0, 0]), disk_write=("u", [0, 0]), nic_in=("u", [HALF, HALF]),
      nic_out=("u", [HALF, HALF]), memory=("u", [3 * HALF, 3 * HALF]), staging=("u", [2 * HALF, 2 * HALF]))
group("ranks", old_host=("i", [0, 1]), old_device=("i", [0, 1]), new_device=("i", [0, 1]))
group("holders", begin=("u", [0, 1, 2]), ranks=("i", [0, 1]))
group("needers", begin=("u", [0, 2]), ranks=("i", [0, 1]))
group("roles", name=("S", ["weight"]), dtype=("S", ["f32" if kind == "model" else ""]), needed=("u", [2 * BYTES]),
      kept=("u", [0]), local=("u", [BYTES]), same_host=("u", [0]), other_host=("u", [BYTES]), storage=("u", [0]))
group("parcels", holders=("u", [0, 1]), needers=("u", [0, 0]), role=("u", [0, 0]), tensor=("u", [0, 0]),
      recut=("u", [1, 1]), bytes=("u", [HALF, HALF]), element=("u", [4, 4]), names=("S", ["w"]))
group("blocks", begin=("u", [0, 1]), end=("u", [1, 2]), host=("u", [0, 1]), price=("i", [HALF, HALF]))
group("transfers", **{"from": ("u", [0, 1])}, to=("u", [1, 0]), parcel=("u", [0, 1]), begin=("u", [0, 0]),
      end=("u", [HALF, HALF]), round=("u", [0, 0]), forwards=("u", [0, 0]))
group("sending", hosts=("u", [0, 1]), disks=("u", []))
group("sources", host=("u", [0, 1]), iteration=("u", [7, 7]))

request = Fingerprint(FROM, TO)
if kind == "model":
    attributes.update(model="tiny", layers=1)
    group("classes", name=("S", ["w"]), axes=("u", [2]), tp_axis=("i", [0]), pad=("u", [0]), experts=("u", [0]),
          first=("u", [1]), last=("u", [1]), layers_begin=("u", [0, 0]), layers=("i", []), shape=("i", [[4, 4]]))
    request.add("tiny", 1, 1, "w", WHOLE, 2, 0, 0, 0, 1, 1, 0, "weight", "f32")
request.add(0, 0, WINDOW, len(HOSTS), [(name, "", RATE, 0.0, 0.0, 0.0, 1, 1, 0, 0) for name in HOSTS])
request.add(2, [(0, 0), (1, 1)], 2, "weight", "w", [(0, 7), (1, 7)])
if kind == "checkpoint":
    pieces, sizes = write_checkpoint()
    source = Fingerprint(2, list(zip(FILES, sizes)), 1, "w", "f32", 2, 4, 4, 2, [(p[0], p[1], p[4]) for p in pieces])
    target = [(0, 0, 0, 0, WHOLE, [4, 1])]
    attributes.update(checkpoint=str(folder / "ckpt"), source_digest=source.value, format="safetensors", dialect="",
                      dtype="", shard_size=0, config="{}", targets=1, moves=2, elements=16, bytes_read=BYTES,
                      bytes_written=BYTES, bytes_same_rank=HALF)
    group("tensors", name=("S", ["w"]), source_dtype=("S", ["f32"]), target_dtype=("S", ["f32"]),
          role=("S", ["weight"]), axes=("u", [2]), shape=("i", [[4, 4]]))
    group("source_files", path=("S", FILES), size=("u", sizes))
    group("target_files", path=("S", ["w.bin"]), size=("u", [BYTES]))
    for name, rows in ("source", pieces), ("target", target):
        letters = zip(("tensor", "file", "offset", "rank", "box", "strides"), "uuuiii", zip(*rows))
        group(name, **{column: (letter, list(values)) for column, letter, values in letters})
    group("held_before", tensor=("u", [0, 0]), rank=("i", [0, 1]), box=("i", [LOW, HIGH]))
    group("held_after", tensor=("u", [0, 0]), rank=("i", [0, 1]), box=("i", [WHOLE, WHOLE]))
    group("cells", parcel=("u", [0, 1]), tensor=("u", [0, 0]), begin=("u", [0, 0]), box=("i", [LOW, HIGH]))
    group("moves", source=("u", [0, 1]), target=("u", [0, 0]), box=("i", [LOW, HIGH]))
    request.add(attributes["checkpoint"], source.value, "safetensors", "", "", 0)
    request.add(1, "w", "f32", "f32", WHOLE, "weight", 2, list(zip(FILES, sizes)), 1, "w.bin", BYTES)
    request.add(*((len(rows), [(t, f, o, r, b, 2, s) for t, f, o, r, b, s in rows]) for rows in (pieces, target)))
    request.add(2, [(0, 0, LOW), (0, 1, HIGH)], 2, [(0, 0, WHOLE), (0, 1, WHOLE)])
attributes["request_digest"] = request.value

for name in sys.argv[3:]:
    letter, values = columns[name]
    changed = np.array(values)
    changed.flat[0] += 1
    columns[name] = letter, changed.tolist()
path = folder / "change.plan"
with h5py.File(path, "w", userblock_size=512) as plan:
    for name, value in attributes.items():
        if isinstance(value, str):
            value = np.array(value.encode(), dtype=f"S{max(len(value), 1)}")
        else:
            value = np.float64(value) if isinstance(value, float) else np.uint64(value)
        plan.attrs.create(name, value)
    for name, (letter, values) in columns.items():
        plan.create_dataset(name, data=column(letter, values))
content = path.read_bytes()
line = f"tpx.plan/3 bytes={len(content)} crc64={crc64(content[512:]):016x}\n".encode()
path.write_bytes(line.ljust(512, b"\0") + content[512:])
