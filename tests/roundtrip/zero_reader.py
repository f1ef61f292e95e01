# SPDX-License-Identifier: Apache-2.0
"""Reads the optimizer state of DeepSpeed's checkpoints with only Python's standard library, as a second opinion on the
output of tpx. ZeRO 1 to 3 by param_shapes, tensor parallelism by universal_checkpoint_info, experts, universal form."""
import hashlib
import re
import zipfile
from pathlib import Path

from reader import SIZES, STORAGES, _Unpickler


class Tensor:
    """A tensor of a torch.save archive, in C order."""

    def __init__(self, dtype, shape, data):
        self.dtype, self.shape, self.data = dtype, list(shape), data

    def elements(self, begin, end):
        size = SIZES[self.dtype]
        return self.data[begin * size : end * size]


class Ordered(dict):
    """Modules' dicts have attributes."""


def load(path):
    """The tree of an archive: dicts, lists, Tensors; objects of classes as _Anything."""
    archive = zipfile.ZipFile(path)
    root = archive.namelist()[0].split("/")[0]
    contents = {}

    def storage(what):
        _, kind, key, _, _ = what
        if key not in contents:
            contents[key] = archive.read(f"{root}/data/{key}")
        return kind.__name__, contents[key]

    class Unpickler(_Unpickler):
        def find_class(self, module, name):
            if name == "_rebuild_tensor_v2":
                return rebuild
            if name == "OrderedDict":
                return Ordered
            return super().find_class(module, name)

    def rebuild(stored, offset, shape, stride, *_):
        kind, data = stored
        dtype = STORAGES[kind]
        size = SIZES[dtype]
        count, expected = 1, []
        for extent in reversed(shape):
            expected.insert(0, count)
            count *= extent
        assert all(e == 1 or s == x for e, s, x in zip(shape, stride, expected)), "strides"
        return Tensor(dtype, shape, data[offset * size : (offset + count) * size])

    return Unpickler(archive.read(f"{root}/data.pkl"), storage).load()


def volume(shape):
    count = 1
    for extent in shape:
        count *= extent
    return count


def join(slices, axis):
    """(shape, bytes) of slices of (shape, bytes) along an axis, elements of 4 bytes."""
    shape = list(slices[0][0])
    shape[axis] = sum(s[axis] for s, _ in slices)
    rows = volume(shape[:axis])
    out = bytearray()
    for row in range(rows):
        for own, data in slices:
            run = volume(own[axis:]) * 4
            out += data[row * run : (row + 1) * run]
    return shape, bytes(out)


def merge(name, slices, info):
    """The tensor that the slices of the tensor ranks form, by universal_checkpoint_info."""

    def among(key):
        return any(re.match(pattern, name) for pattern in info.get(key) or [])

    if len(slices) == 1 or among("tp_replicated_parameter_patterns"):
        shape, data = slices[0]
    elif among("parameter_with_2_sub_params_cat_dim_0"):
        halves = [(([s[0] // 2, *s[1:]]), data) for s, data in slices]
        first = join([(s, data[: len(data) // 2]) for s, data in halves], 0)
        second = join([(s, data[len(data) // 2 :]) for s, data in halves], 0)
        shape, data = join([first, second], 0)
    else:
        shape, data = join(slices, 1 if among("parameter_with_row_parallelism_patterns") else 0)
    if among("vocabulary_parameter_patterns"):
        shape = [info["original_vocab_size"], *shape[1:]]
        data = data[: volume(shape) * 4]
    return shape, data


def flat_states(states, masters):
    named = {key: value for key, value in states.items() if isinstance(value, Tensor) and value.shape}
    return {"fp32": masters, **named}


def read_rank12(files, model, group_number, ranks):
    """Slices of one group, from the partitions of `ranks`: {name: {state: (shape, bytes)}}."""
    shapes = model["param_shapes"][group_number]
    whole = {}
    for d in ranks:
        optimizer = files[d]["optimizer_state_dict"]
        base = optimizer["base_optimizer_state"]
        states = base[group_number] if isinstance(base, list) else base["state"][group_number]
        for state, tensor in flat_states(states, optimizer["single_partition_of_fp32_groups"][group_number]).items():
            whole[state] = whole.get(state, b"") + tensor.data
    gaps = files[ranks[0]]["optimizer_state_dict"].get("param_alignment_paddings")
    result, at = {}, 0
    for number, (name, shape) in enumerate(shapes.items()):
        size = volume(shape)
        for state, data in whole.items():
            result.setdefault(name, {})[state] = (list(shape), data[at * 4 : (at + size) * 4])
            assert len(result[name][state][1]) == size * 4, f"{name}: the partitions end too early"
        at += size + (gaps[group_number][number] if gaps else 0)
    return result


def read_rank3(files, model):
    result, dp = {}, len(files)
    for number, shapes in enumerate(model["param_shapes"]):
        at = 0
        for name, shape in shapes.items():
            part = -(-volume(shape) // dp)
            for d in range(dp):
                optimizer = files[d]["optimizer_state_dict"]
                states = flat_states(optimizer["optimizer_state_dict"]["state"][number], optimizer["fp32_flat_groups"][number])
                for state, tensor in states.items():
                    own = result.setdefault(name, {}).setdefault(state, (list(shape), b""))
                    size = max(0, min(part, volume(shape) - d * part))
                    result[name][state] = (own[0], own[1] + tensor.elements(at, at + size))
            at += part
    return result


def slices_of(files, model):
    """The slices that a model-parallel rank has; experts by their global numbers."""
    first = files[0]["optimizer_state_dict"]
    if "fp32_flat_groups" in first:
        return read_rank3(files, model)
    result, dp = {}, len(files)
    for number in range(len(model["param_shapes"])):
        count = first["partition_count"]
        experts = dp // (count[number] if isinstance(count, list) else count)
        local = 1 + max([int(m[1]) for m in map(re.compile(r".*deepspeed_experts\.(\d+)\.").match, model["param_shapes"][number]) if m] or [0])
        for rank in range(experts):
            for name, states in read_rank12(files, model, number, range(rank, dp, experts)).items():
                name = re.sub(r"(?<=deepspeed_experts\.)\d+", lambda m: str(int(m[0]) + rank * local), name)
                result[name] = states
    return result


def read_zero(step):
    files = {}
    for path in step.iterdir():
        if match := re.fullmatch(r"(?:bf16_|fp16_)?zero_pp_rank_(\d+)_mp_rank_(\d+)_optim_states\.pt", path.name):
            files.setdefault(int(match[2]), {})[int(match[1])] = load(path)
    models = {}
    for path in step.iterdir():
        if match := re.fullmatch(r"(?:zero_pp_rank_0_)?mp_rank_(\d+)_model_states\.pt", path.name):
            models[int(match[1])] = load(path)
    info = models[0].get("universal_checkpoint_info") or {}
    tp = models[0]["checkpoint_parallel_dimensions"]["tp_degree"]
    result = {}
    for stage in range(len(models) // tp):
        ranks = [slices_of(files[stage * tp + t], models[stage * tp + t]) for t in range(tp)]
        for name, states in ranks[0].items():
            for state in states:
                if f"{name}/{state}" not in result:
                    result[f"{name}/{state}"] = merge(name, [rank[name][state] for rank in ranks], info)
    return result


def read_universal(step, shapes):
    result = {}
    for path in step.glob("zero/**/*.pt"):
        name = str(path.parent.relative_to(step / "zero"))
        if f"{name}/{path.stem}" in shapes and path.stem != "step":
            tree = load(path)
            tensor = tree["param"] if isinstance(tree, dict) else tree
            result[f"{name}/{path.stem}"] = (shapes[f"{name}/{path.stem}"], tensor.data)
    return result


def read_states(root, wanted):
    """{"NAME/STATE": {"dtype", "shape", "sha256"}} of a checkpoint; of universal ones, only the entries in `wanted`."""
    root = Path(root)
    universal = root / "latest_universal"
    step = root / (universal if universal.exists() else root / "latest").read_text().strip()
    shapes = {name: entry["shape"] for name, entry in wanted.items()}
    found = read_universal(step, shapes) if universal.exists() else read_zero(step)
    return {n: {"dtype": "f32", "shape": list(s), "sha256": hashlib.sha256(d).hexdigest()} for n, (s, d) in found.items()}
