# SPDX-License-Identifier: Apache-2.0
"""same_pieces.py EXECUTED WRITTEN: checks that examples/execute_plan.py wrote the same to EXECUTED/rank-N.safetensors
as tpx reshard to WRITTEN, a folder of safetensors with one or more files for each rank. The files are read without tpx:
the box of a piece is its saved_offsets and shape in the header. Prints how many pieces and bytes agree."""
import json
import re
import sys
from pathlib import Path


def pieces(path):
    data = path.read_bytes()
    end = 8 + int.from_bytes(data[:8], "little")
    header = json.loads(data[8:end])
    sharding = json.loads(header.pop("__metadata__", {}).get("DCP_SHARDING_INFO", "{}"))
    for name, entry in header.items():
        first, last = (end + offset for offset in entry["data_offsets"])
        offsets = sharding.get(name, {}).get("saved_offsets", [0] * len(entry["shape"]))
        if not name.endswith("]"):  # execute_plan.py writes the box after the name
            name += " [" + ", ".join(f"{b}:{b + n}" for b, n in zip(offsets, entry["shape"])) + "]"
        yield name, entry["dtype"], data[first:last]


executed, written = Path(sys.argv[1]), Path(sys.argv[2])
held = {(int(path.stem[5:]), name): (dtype, data) for path in executed.iterdir() for name, dtype, data in pieces(path)}
stored = {}  # by name and box: the content that one rank stores for all holders
for path in sorted(written.glob("*.safetensors")):
    shard = re.match(r"shard-(\d+)-", path.name)
    rank = int(shard.group(1)) - 1 if shard else 0
    for name, dtype, data in pieces(path):
        if not data:
            continue  # plans do not contain tensors without elements
        assert held[rank, name] == (dtype, data), f"rank {rank}: {name}"
        stored[name] = dtype, data
for (rank, name), content in held.items():
    assert stored[name] == content, f"rank {rank}: {name}"
print(len(held), "pieces,", sum(len(data) for _, data in held.values()), "bytes")
