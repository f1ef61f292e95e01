# SPDX-License-Identifier: Apache-2.0
"""bridge_tables.py TPX: a tiny model of each family in testdata/bridge, made without any framework, comes back from Megatron's
names with tp=2 with the same bytes, and its tensors have the shapes that Megatron Bridge gives them. Values are compared with
Megatron Bridge's by tests/interop/megatron_bridge.py, which needs PyTorch."""
import json
import re
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

DATA = Path(__file__).resolve().parents[2] / "testdata/bridge"
# Tensors of layers and experts that torch_dist stacks, or of which it stores parts.
STACKED = re.compile(r"\.layers\.(?!\d)|\.experts\.experts\.|deepstack_merger_list\.(?!\d)|\.in_proj\.weight|\.conv1d\.")


def write(folder, table):
    """The table's model as safetensors: f32 values that follow from their position, for which adding or subtracting 1
    is exact."""
    folder.mkdir()
    header, parts, size = {"__metadata__": {"format": "pt"}}, [], 0
    for number, (name, shape) in enumerate(table["hf"].items()):
        count = 1
        for length in shape:
            count *= length
        data = struct.pack(f"<{count}f", *(((number * 977 + k * 31) % 4099) / 64 for k in range(count)))
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [size, size + len(data)]}
        parts.append(data)
        size += len(data)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + b"".join(parts))
    (folder / "config.json").write_text(json.dumps(table["config"]))


def read(folder):
    """Name -> shape and bytes."""
    found = {}
    for path in sorted(folder.glob("*.safetensors")):
        data = path.read_bytes()
        start = 8 + struct.unpack("<Q", data[:8])[0]
        for name, entry in json.loads(data[8:start]).items():
            if name != "__metadata__":
                begin, end = entry["data_offsets"]
                found[name] = (entry["shape"], data[start + begin:start + end])
    return found


def tpx(program, *words):
    done = subprocess.run([program, *map(str, words)], capture_output=True, text=True)
    return done.stdout, [] if done.returncode == 0 else [f"tpx {words[0]}: exit status {done.returncode}: {done.stderr.strip()}"]


def misshapen(table, text):
    """Whole tensors that Megatron Bridge lacks or whose shape differs from its."""
    faults = []
    for tensor in json.loads(text)["tensor_list"]:
        name, shape = tensor["name"], "x".join(map(str, tensor["shape"]))
        row = table["mcore"].get(name) or table["mcore"].get(name.replace(".transformer_layer.", ".mtp_model_layer."))
        if not STACKED.search(name) and (row is None or row[1].partition(":")[0] != shape):
            faults.append(f"{name} {shape}: Megatron Bridge has {row and row[1].partition(':')[0]}")
    return faults


def check(program, table, folder):
    source, there, back = folder / "hf", folder / "there", folder / "back"
    write(source, table)
    _, faults = tpx(program, "reshard", source, there, "--to", "tp=2", "--format", "torch_dist", "--quiet", "--set", "make_vocab_size_divisible_by=8")
    if not faults:
        text, faults = tpx(program, "inspect", "--json", "--tensors", there)
        faults = faults or misshapen(table, text)
    if not faults:
        _, faults = tpx(program, "reshard", there, back, "--to", "tp=1", "--format", "safetensors", "--quiet")
    if faults:
        return faults
    before, after = read(source), read(back)
    return [f"{name}: not what it was" for name in sorted(before.keys() | after.keys()) if before.get(name) != after.get(name)]


def main(program):
    failed = 0
    for path in sorted(DATA.glob("*.json")):
        with tempfile.TemporaryDirectory() as folder:
            faults = check(program, json.loads(path.read_text()), Path(folder))
        failed += bool(faults)
        print("\n  ".join([f"{'FAIL' if faults else 'ok'}: {path.stem}", *faults[:5]]), flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
