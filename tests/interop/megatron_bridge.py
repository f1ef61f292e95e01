# SPDX-License-Identifier: Apache-2.0
"""Megatron rank files that tpx writes from Hugging Face checkpoints have the names, shapes and values that Megatron
Bridge gives the same tensors, without and with tensor and expert parallelism of 2. testdata/bridge contains the output
of Megatron Bridge, a file for each family, which testdata/make/bridge.py wrote with Megatron Bridge's own code. tpx
converts the rank files back to the same checkpoint."""
import hashlib
import json
import re
import subprocess
import tempfile
import zlib
from pathlib import Path

import numpy

DATA = Path(__file__).resolve().parents[2] / "testdata/bridge"
EXPERT = re.compile(r"(\.experts\.linear_fc[12]\.(?:weight|bias))(\d+)$")
STACK = re.compile(r"(.*(?:decoder\.layers|deepstack_merger_list)\.)(\D.*)")
PART = re.compile(r"(.*\.(?:in_proj|conv1d)\.weight)\.\w+$")
LAYOUTS = ["tp=1", "tp=2,ep=2,etp=1"]


def values(name, shape):
    """Values of a tensor that follow from its name. They differ within a tensor, and adding or subtracting 1 is exact."""
    count = int(numpy.prod(shape))
    numbers = (zlib.crc32(name.encode()) + numpy.arange(count, dtype=numpy.int64) * 40503) % 65521
    return (numbers.astype(numpy.float32) / 64).reshape(shape)


def described(array):
    """Shape and values in one word."""
    array = numpy.ascontiguousarray(array, dtype="<f4")
    return "x".join(map(str, array.shape)) + ":" + hashlib.sha256(array.tobytes()).hexdigest()[:12]


def written(table, long=("hf", "mcore")):
    """A table as JSON, in its `long` entries a line for each tensor."""
    def lines(rows):
        return "{\n" + ",\n".join(f"  {json.dumps(name)}: {json.dumps(row)}" for name, row in rows.items()) + "\n}"

    head = [f"{json.dumps(key)}: {lines(value) if key in long else json.dumps(value)}" for key, value in table.items()]
    return "{" + ",\n".join(head) + "}\n"


def run(tpx, *words):
    done = subprocess.run([tpx, *map(str, words)], capture_output=True, text=True)
    return [] if done.returncode == 0 else [f"tpx {words[0]}: exit status {done.returncode}: {done.stderr.strip()}"]


def rank_tensors(folder, experts):
    """The parameters of each rank, experts numbered across ranks."""
    import torch

    files = sorted(folder.rglob("model_optim_rng.pt"))
    for rank, file in enumerate(files):
        first = rank * experts // len(files)
        found = {}
        for name, value in torch.load(file, weights_only=False)["model"].items():
            if not name.endswith("_extra_state"):
                name = EXPERT.sub(lambda found: found[1] + str(first + int(found[2])), name)
                found[name] = value.numpy()
        yield found


def compared(table, ranks):
    """Differences between the tensors of the ranks and those of Megatron Bridge."""
    faults, used = [], set()
    for rank, held in enumerate(ranks):
        for name, value in held.items():
            # Megatron-core 0.16 calls it so; the bridge of DeepSeek-V3 has only the name of later versions.
            row = table["mcore"].get(name) or table["mcore"].get(name.replace(".transformer_layer.", ".mtp_model_layer."))
            if row is None:
                faults.append(f"{name}: Megatron Bridge has no such name")
                continue
            sources, whole, *parts = row
            expected = whole if len(ranks) == 1 or ".experts." in name else parts[rank]
            used.update(sources)
            if described(value) != expected:
                faults.append(f"{name} of rank {rank}: {described(value)}, Megatron Bridge has {expected}")
    known = {source for sources, *_ in table["mcore"].values() for source in sources}
    faults += [f"{name}: not converted by tpx" for name in sorted(known - used)]
    return faults + [f"{name}: not converted by Megatron Bridge" for name in sorted(table["hf"].keys() - known)]


def differences(tensors, folder):
    """Differences between the tensors of safetensors files and the given ones."""
    from safetensors.numpy import load_file

    found = {name: value for path in folder.glob("*.safetensors") for name, value in load_file(path).items()}
    faults = [f"{name}: in one of the checkpoints only" for name in sorted(found.keys() ^ tensors.keys())]
    return faults + [f"{name}: not what it was" for name in found.keys() & tensors.keys() if not numpy.array_equal(found[name], tensors[name])]


def unstacked(name, value):
    """The tensors of single layers and experts that are in a tensor of a torch_dist checkpoint."""
    stack = STACK.match(name)
    for one, tensor in [(f"{stack[1]}{k}.{stack[2]}", item) for k, item in enumerate(value)] if stack else [(name, value)]:
        if "_moe_layer.experts.experts." in one:  # of Megatron Bridge's own, which names experts as Megatron's SequentialMLP
            yield from ((one.replace(".experts.experts.", f".experts.local_experts.{e}."), t.numpy()) for e, t in enumerate(tensor))
        elif ".experts.experts." in one:
            yield from ((f"{one.replace('.experts.experts.', '.experts.')}{e}", t.numpy()) for e, t in enumerate(tensor))
        else:
            yield one, tensor.numpy()


def joined(tensors):
    """The same, with the inputs of each delta net in one tensor, as on ranks."""
    found = {name: value for name, value in tensors.items() if not PART.match(name)}
    for name in sorted({part[1] for part in map(PART.match, tensors) if part}):
        order = ("query", "key", "value", "z", "beta", "alpha")
        found[name] = numpy.concatenate([tensors[f"{name}.{part}"] for part in order if f"{name}.{part}" in tensors])
    return found


def stacked_tensors(folder):
    """The tensors of a torch_dist checkpoint, one for each layer and expert as ranks have them, and, of those of Megatron's vision
    towers, the pieces of which they consist."""
    import torch
    from torch.distributed.checkpoint import FileSystemReader, load

    reader = FileSystemReader(folder)
    stored = {name: info for name, info in reader.read_metadata().state_dict_metadata.items() if hasattr(info, "size")}
    made = {name: torch.empty(info.size, dtype=info.properties.dtype) for name, info in stored.items()}
    load(made, storage_reader=reader, no_dist=True)
    found = joined({one: array for name, value in made.items() for one, array in unstacked(name, value)})
    pieces = {}
    for name, info in stored.items():
        for chunk in sorted(info.chunks, key=lambda chunk: tuple(chunk.offsets)) if name.startswith("vision_model.") else []:
            part = made[name][tuple(slice(begin, begin + size) for begin, size in zip(chunk.offsets, chunk.sizes))]
            for one, array in unstacked(name, part):
                pieces.setdefault(one, []).append(array)
    return found, pieces


def split_differently(table, pieces):
    """Parts of Megatron's vision towers that tensor parallelism splits differently from Megatron Bridge."""
    faults = []
    for name, arrays in pieces.items():
        parts = set(table["mcore"][name][2:])
        if len(arrays) == 2 * len(parts):  # a rank has its rows of two tensors, gate and up, which are pieces of their own
            arrays = [numpy.concatenate(pair) for pair in zip(arrays[: len(parts)], arrays[len(parts) :])]
        if sorted(map(described, arrays)) != sorted(parts):
            faults.append(f"{name}: split into {[described(array) for array in arrays]}, Megatron Bridge has {table['mcore'][name][2:]}")
    return faults


def check_outer(tpx, table, source, tensors, folder):
    """The same for a model with parts outside its language model, which Megatron Bridge stores only in torch_dist."""
    faults, names = [], 0
    for number, layout in enumerate(("tp=1", "tp=2,pp=2")):
        there, again = Path(folder, f"there{number}"), Path(folder, f"back{number}")
        failed = run(tpx, "reshard", source, there, "--to", layout, "--format", "torch_dist", "--quiet", "--set", "make_vocab_size_divisible_by=8")
        if not failed:
            held, pieces = stacked_tensors(next(there.rglob(".metadata")).parent)
            names += len(held)
            failed = compared(table, [held]) or (split_differently(table, pieces) if number else [])
        failed = failed or run(tpx, "reshard", there, again, "--to", "tp=1", "--format", "safetensors", "--quiet")
        faults += [f"{layout}: {line}" for line in failed or differences(tensors, again)]
    return faults, names


def by_way_of_torch_dist(tpx, ranks, out):
    """Faults of the torch_dist checkpoint that tpx makes from rank files: Megatron-core stores the parts of Mamba's
    inputs there."""
    from torch.distributed.checkpoint import FileSystemReader

    failed = run(tpx, "reshard", ranks, out, "--to", "tp=1", "--format", "torch_dist", "--quiet")
    if failed:
        return failed
    names = FileSystemReader(next(out.rglob(".metadata")).parent).read_metadata().state_dict_metadata
    parts = {name.rpartition(".in_proj.weight")[2] for name in names if ".in_proj.weight" in name}
    known = ({".z", ".x", ".B", ".C", ".dt"}, {".query", ".key", ".value", ".z", ".beta", ".alpha"})
    return [] if parts in known else [f"torch_dist has the parts {sorted(parts)} of in_proj.weight"]


def check(tpx, table, folder):
    from safetensors.numpy import save_file

    source = Path(folder, "hf")
    source.mkdir()
    (source / "config.json").write_text(json.dumps(table["config"]))
    tensors = {name: values(name, shape) for name, shape in table["hf"].items()}
    save_file(tensors, source / "model.safetensors", {"format": "pt"})
    if "text_config" in table["config"] or "thinker_config" in table["config"]:
        return check_outer(tpx, table, source, tensors, folder)
    experts = max((int(found[1]) + 1 for name in table["mcore"] if (found := re.search(r"linear_fc1\.weight(\d+)$", name))), default=0)
    faults, names, given = [], 0, source
    for number, layout in enumerate(LAYOUTS):
        layout = layout if experts else layout.partition(",ep")[0]
        there, again = Path(folder, f"there{number}"), Path(folder, f"back{number}")
        failed = run(tpx, "reshard", given, there, "--to", layout, "--format", "megatron", "--quiet",
                     "--set", "moe_grouped_gemm=true", "--set", "make_vocab_size_divisible_by=8")
        if not failed:
            ranks = list(rank_tensors(there, experts))
            names += sum(map(len, ranks))
            failed = compared(table, ranks)
        failed = failed or run(tpx, "reshard", there, again, "--to", "tp=1", "--format", "safetensors", "--quiet")
        failed = failed or differences(tensors, again)
        if not failed and given == source and any(".in_proj.weight" in name for name in table["mcore"]):
            given = Path(folder, "torch_dist")
            failed = by_way_of_torch_dist(tpx, there, given)
        faults += [f"{layout}: {line}" for line in failed]
    return faults, names


def blind(tpx, table):
    """Altered tables that are not detected: one with another value, one without a name, one with an additional
    tensor."""
    name, row = next((name, row) for name, row in table["mcore"].items() if name.endswith("linear_qkv.weight"))
    others = {
        "another value": {**table["mcore"], name: [row[0], "1:0", "1:0", "1:0"]},
        "a missing name": {other: row for other, row in table["mcore"].items() if other != name},
        "one tensor more": {**table["mcore"], "more": [["more.weight"], "1:0", "1:0", "1:0"]},
    }
    faults = []
    for what, rows in others.items():
        with tempfile.TemporaryDirectory() as folder:
            if not check(tpx, {**table, "mcore": rows}, folder)[0]:
                faults.append(f"the comparison does not see {what}")
    return faults


def main(tpx):
    tables = {path.stem: json.loads(path.read_text()) for path in sorted(DATA.glob("*.json"))}
    failed = total = 0
    for family, table in tables.items():
        with tempfile.TemporaryDirectory() as folder:
            faults, names = check(tpx, table, folder)
        failed += bool(faults)
        total += names
        print(f"{'FAIL' if faults else 'ok'}: {family}, {names} tensors of ranks ({table['bridge']})")
        for line in faults[:8]:
            print(f"  {line}")
    faults = blind(tpx, tables["llama"])
    print("\n".join([*faults, f"{len(tables)} families, {total} tensors of ranks"]))
    return 1 if failed or faults else 0
