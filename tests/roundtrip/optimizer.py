# SPDX-License-Identifier: Apache-2.0
"""The jobs of roundtrip.py for Megatron's optimizers: in each group of checkpoints of one state, with any form of the
optimizer (plain; distributed in whole tensors, in buckets or in blobs; rank files), each is converted to every other
one, with masters and moments, which a second reader compares with those that the framework had in memory.
"""
import json
import re
import tempfile
from pathlib import Path

import reader
from tool import FIXTURES, fixture, tpx

FOLDER = "megatron"
AXES = ("tp", "pp", "dp", "ep", "etp")
STATES = {"param": "fp32_param", "fp32_param": "fp32_param", "exp_avg": "exp_avg", "exp_avg_sq": "exp_avg_sq"}
NORMS = {".self_attention.linear_qkv.layer_norm_": ".input_layernorm.", ".mlp.linear_fc1.layer_norm_": ".pre_mlp_layernorm."}


def run(*words, ranks=1):
    done = tpx(*words, ranks=ranks)
    if done.returncode == 0:
        return []
    return [f"{' '.join(map(str, words))}: exit {done.returncode}: {done.stdout.strip()} {done.stderr.strip()}"]


def layout(facts):
    given = facts["layout"]
    degrees = {axis: given[axis] for axis in AXES if given[axis] > 1 and not (axis == "etp" and given[axis] == given["tp"])}
    if given["optimizer"] == "distributed" and given["dp"] > 1:  # only for dp: experts with ep=dp have no replicas
        degrees["zero"] = 1
    return ",".join(f"{axis}={degree}" for axis, degree in degrees.items()) or "tp=1"


def one_spelling(name):
    for fused, own in NORMS.items():
        name = name.replace(fused, own)
    return name


def slices(whole, index):
    """Element `index` of the first axis, as a separate tensor."""
    part = reader.Whole(whole.dtype, whole.shape[1:])
    size = len(part.data)
    part.data[:] = whole.data[index * size : (index + 1) * size]
    return part


def taken_apart(tensors):
    """{state}.{name} -> tensor of one layer and expert, named as in the facts of a checkpoint."""
    out = {}
    for key, whole in tensors.items():
        match = re.fullmatch(r"optimizer\.state\.(\w+)\.(.+)", key)
        if not match:
            continue
        parts = [(match[2], whole)]
        if match[2].startswith("decoder.layers.") and not re.match(r"decoder\.layers\.\d", match[2]):
            parts = [(match[2].replace("layers.", f"layers.{i}.", 1), slices(whole, i)) for i in range(whole.shape[0])]
        for name, part in parts:
            if ".experts.experts." not in name:
                out[f"{STATES[match[1]]}.{one_spelling(name)}"] = part
                continue
            for j in range(part.shape[0]):
                one = name.replace("experts.experts.", f"experts.local_experts.{j}.")
                out[f"{STATES[match[1]]}.{one_spelling(one)}"] = slices(part, j)
    return out


def differences(folder, facts):
    """Differences between the optimizer of a torch_dist checkpoint and the facts."""
    found = taken_apart(reader.read(folder)[0])
    wanted = {one_spelling(name): entry for name, entry in facts["optimizer_logical"].items()}
    faults = [f"{name}: only in {'the facts' if name in wanted else 'the files'}" for name in found.keys() ^ wanted.keys()]
    return faults + [f"{name}: differs" for name in found.keys() & wanted.keys() if found[name].entry() != wanted[name]]


def become(one, other, ranks):
    """`one` in the layout and form of `other`, and as whole tensors in torch_dist, equals `other`."""
    source, _ = fixture(FOLDER, one)
    target, facts = fixture(FOLDER, other)
    form = "torch_dist" if facts["format"].endswith("torch_dist") else "megatron"
    kind = ["--set", f"use_distributed_optimizer={str(facts['layout']['optimizer'] == 'distributed').lower()}"]
    with tempfile.TemporaryDirectory() as scratch:
        out, whole = Path(scratch, "out"), Path(scratch, "whole")
        to = ["--to", layout(facts), "--quiet"]
        faults = run("reshard", source, out, *to, "--format", form, *kind, ranks=ranks)
        if faults:
            return faults
        if form == "torch_dist":
            return differences(out, facts)
        # Rank files through tpx's own reader: it must find the state that Megatron saved, and make the same whole
        # tensors from both. `other` was saved by a separate run, with different random numbers.
        return run("verify", "--ignore", "rng", out, target) or run("reshard", out, whole, *to, "--format", "torch_dist") or differences(whole, facts)


def seen(name):
    checkpoint, facts = fixture(FOLDER, name)
    done = tpx("inspect", checkpoint, "--json")
    if done.returncode:
        return [f"inspect: exit {done.returncode}: {done.stderr.strip()}"]
    found = json.loads(done.stdout)["layout"]["text"]
    return [] if found == layout(facts) else [f"layout {found} instead of {layout(facts)}"]


def fits(folder, name):
    """The framework's own optimizer state matches its weights."""
    return run("verify", "--masters", fixture(folder, name)[0])


def jobs():
    groups = {}
    for path in sorted((FIXTURES / FOLDER).glob("*/fixture.json")):
        facts = json.loads(path.read_text())
        if facts.get("optimizer_logical"):
            groups.setdefault(facts["same_state_as"], []).append(facts["name"])
    for members in groups.values():
        for i, one in enumerate(members):
            yield seen, one
            yield fits, FOLDER, one
            for k, other in enumerate(members):
                # Every pair once in each direction; a few by several processes.
                if i != k or i == 0:
                    yield become, one, other, 1 + ((i + k) % 16 == 0)
    for path in sorted((FIXTURES / "deepspeed").glob("*/fixture.json")):
        yield fits, "deepspeed", path.parent.name
