# SPDX-License-Identifier: Apache-2.0
"""Compares Megatron rank files that tpx writes with those that Megatron wrote for the same state and layout. torch.load
must return the same keys, order, types and bits for both, except args that tell how a job was started, and RNG states,
which tpx keeps only for ranks that exist in the source."""
import argparse
import io
import os
import shutil
import subprocess
import tempfile
import zipfile
from pathlib import Path

import torch

ROOT = Path(__file__).resolve().parents[2]
FIXTURES = Path(os.environ.get("TPX_FIXTURES", ROOT / "../shared/fixtures")) / "megatron"

# source, layout, and the checkpoint that Megatron wrote in that layout
CASES = [
    ("llama-small-legacy-tp1pp1", "tp=2,pp=2,vpp=2", "llama-small-legacy-tp2pp2vpp2"),
    ("llama-small-dist-tp4pp1", "tp=2,pp=2", "llama-small-legacy-tp2pp2"),
    ("uneven-small-legacy-tp1pp1", "pp=4,first=1,last=2", "uneven-small-legacy-tp1pp4-first1last2"),
    ("gpt2-small-dist-tp1pp1", "pp=3", "gpt2-small-legacy-tp1pp3"),
    ("moe-small-dist-tp1pp1", "tp=2,ep=2,etp=1", "moe-small-legacy-tp2pp1ep2etp1"),
    ("moe-small-legacy-tp2pp1ep2etp1", "pp=2,dp=2,ep=2", "moe-small-legacy-tp1pp2ep2dp2"),
    ("llama-opt-legacy-tp1pp1", "tp=2,pp=2", "llama-opt-legacy-tp2pp2"),
    ("llama-opt-dist-tp2pp2", "tp=1", "llama-opt-legacy-tp1pp1"),
    ("llama-opt-legacy-tp1pp1-torchadam", "tp=1", "llama-opt-legacy-tp1pp1-torchadam"),
    ("llama-opt-legacy-tp2pp1dp2-distopt", "tp=1,dp=4", "llama-opt-legacy-tp1pp1dp4-distopt-buckets"),
    ("llama-opt-dist-tp1pp1dp4-fully_reshardable", "tp=2,dp=2", "llama-opt-legacy-tp2pp1dp2-distopt"),
    ("moe-x-dist-tp1pp1ep2dp4-fully", "dp=2,ep=2", "moe-x-legacy-tp1pp1ep2dp2-distopt"),
    ("gpt2-x-legacy-tp1pp2dp2-b5000", "pp=2,dp=2", "gpt2-x-legacy-tp1pp2dp2-b5000"),
]
STARTED = {"num_virtual_stages_per_pipeline_rank", "inprocess_active_world_size", "align_param_gather", "overlap_p2p_comm"}
STARTED |= {"overlap_grad_reduce", "ddp_bucket_size", "dist_ckpt_optim_fully_reshardable", "save", "global_batch_size"}


def differences(ours, theirs, path=""):
    """The differences between two trees."""
    if torch.is_tensor(ours) and torch.is_tensor(theirs):
        same = ours.dtype == theirs.dtype and ours.shape == theirs.shape and torch.equal(ours, theirs)
        return [] if same else [f"{path}: other values"]
    if type(ours) is not type(theirs):
        return [f"{path}: {type(ours).__name__} instead of {type(theirs).__name__}"]
    if isinstance(ours, argparse.Namespace):
        ours, theirs = ({k: v for k, v in vars(x).items() if k not in STARTED} for x in (ours, theirs))
    if isinstance(ours, dict):
        ours, theirs = ({k: v for k, v in x.items() if k != "rng_state"} for x in (ours, theirs))
        if ours.keys() != theirs.keys():
            return [f"{path}: keys {sorted(map(str, ours.keys() ^ theirs.keys()))} on one side only"]
        found = ["another order"] if path.startswith("model") and list(ours) != list(theirs) else []
        return found + [line for k in ours for line in differences(ours[k], theirs[k], f"{path}.{k}".lstrip("."))]
    if isinstance(ours, (list, tuple)):
        if len(ours) != len(theirs):
            return [f"{path}: {len(ours)} instead of {len(theirs)}"]
        return [line for i, (a, b) in enumerate(zip(ours, theirs)) for line in differences(a, b, f"{path}.{i}")]
    return [] if ours == theirs else [f"{path}: {ours!r} instead of {theirs!r}"]


def files(folder):
    return {path.relative_to(folder) for path in Path(folder).rglob("*") if path.is_file()}


def check(tpx, source, layout, like):
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder, "out")
        command = [tpx, "reshard", FIXTURES / source / "ckpt", out, "--to", layout, "--format", "megatron", "--quiet"]
        done = subprocess.run(list(map(str, command)), capture_output=True, text=True)
        if done.returncode != 0:
            return [f"exit status {done.returncode}: {done.stderr.strip()}"]
        theirs = FIXTURES / like / "ckpt"
        faults = [f"{path}: on one side only" for path in files(out) ^ files(theirs)]
        for path in sorted(files(out) & files(theirs)):
            if path.suffix != ".pt":
                continue
            if zipfile.ZipFile(out / path).testzip() is not None:
                faults.append(f"{path}: a CRC-32 does not hold")
            trees = [torch.load(folder / path, weights_only=False) for folder in (out, theirs)]
            faults += [f"{path}: {line}" for line in differences(*trees)]
        return faults


# Names of Megatron-LM's modules before Megatron-core.
OLD_NAMES = {
    ".self_attention.linear_qkv.": ".self_attention.query_key_value.", ".self_attention.linear_proj.": ".self_attention.dense.",
    ".mlp.linear_fc1.": ".mlp.dense_h_to_4h.", ".mlp.linear_fc2.": ".mlp.dense_4h_to_h.",
    ".pre_mlp_layernorm.": ".post_attention_layernorm.",
}  # fmt: skip


def as_before(model, version, heads):
    """A model's state dict in the names, dicts and order of rows of checkpoint_version 0, 1 or 2."""
    out = {"language_model": {"embedding": {}, "encoder": {}}}
    for name, value in model.items():
        if not torch.is_tensor(value):
            continue
        if ".linear_qkv." in name and version < 2:
            parts = value.view(heads, 3, -1, *value.shape[1:])  # for each head a query, a key, a value
            value = (parts.transpose(0, 1) if version == 0 else parts.transpose(1, 2)).reshape(value.shape).contiguous()
        for now, before in OLD_NAMES.items():
            name = name.replace(now, before)
        path = name.split(".")
        if name.startswith("embedding."):
            out["language_model"]["embedding"].setdefault(path[1], {})[path[2]] = value
        elif name.startswith("decoder."):
            out["language_model"]["encoder"][name.removeprefix("decoder.")] = value
        elif len(model) > 1 and name == "output_layer.weight":
            out["word_embeddings_for_head"] = {"weight": value}  # these models tie their embeddings
    return out


def check_before(tpx, source, version):
    """Rank files in the form before Megatron-core have the same content as in the current form."""
    with tempfile.TemporaryDirectory() as folder:
        old = Path(folder, "old")
        shutil.copytree(FIXTURES / source / "ckpt", old)
        for path in old.rglob("model_optim_rng.pt"):
            state = torch.load(path, weights_only=False)
            heads = state["args"].num_attention_heads // state["args"].tensor_model_parallel_size
            state["model"] = as_before(state["model"], version, heads)
            state["checkpoint_version"] = float(version)
            if version == 0:
                del state["checkpoint_version"]
            torch.save(state, path)
        done = subprocess.run([tpx, "verify", old, FIXTURES / source / "ckpt"], capture_output=True, text=True)
        return [] if done.returncode == 0 else [f"exit status {done.returncode}: {done.stdout} {done.stderr}"]


def as_transformer_engine(model, extra):
    """A state dict in the names and order of TransformerEngine's layers, whose linear layers contain the preceding
    norms."""
    out, norms = {}, {}
    for name, value in model.items():
        if ".input_layernorm." in name:
            norms[name.replace("input_layernorm.", "self_attention.linear_qkv.layer_norm_")] = value
        elif ".pre_mlp_layernorm." in name:
            norms[name.replace("pre_mlp_layernorm.", "mlp.linear_fc1.layer_norm_")] = value
        else:
            if name.endswith(".weight"):
                for norm in [norm for norm in norms if norm.startswith(name.removesuffix("weight") + "layer_norm_")]:
                    out[norm] = norms.pop(norm)
            out[name] = extra() if name.endswith("_extra_state") else value
    return out


def as_if_by_transformer_engine(state, vectors, extra):
    """Gives one rank's files the names and the order of TransformerEngine, with optimizer state in that order."""
    before = [name for name, value in state["model"].items() if torch.is_tensor(value)]
    state["model"] = model = as_transformer_engine(state["model"], extra)
    state["args"].transformer_impl = "transformer_engine"
    local = {"self_attention.linear_qkv.layer_norm_": "input_layernorm.", "mlp.linear_fc1.layer_norm_": "pre_mlp_layernorm."}
    now = [name for name in model if not name.endswith("_extra_state")]
    for fused, own in local.items():
        before = [name.replace(own, fused) for name in before]
    if vectors is None:
        optimizer, first = state["optimizer"]["optimizer"], 0
        for group, masters in zip(optimizer["param_groups"], state["optimizer"]["fp32_from_fp16_params"]):
            decays = group["wd_mult"] == 1.0
            old, new = ([n for n in names if (model[n].dim() > 1 and not n.endswith(".bias")) == decays] for names in (before, now))
            states = [optimizer["state"][i] for i in group["params"]]
            optimizer["state"].update({first + k: states[old.index(name)] for k, name in enumerate(new)})
            masters[:] = [masters[old.index(name)] for name in new]
            first += len(new)
        return

    def places(names):
        at, found = 0, {}
        for name in reversed(names):
            at = -(-at // 64) * 64
            found[name] = slice(at, at + model[name].numel())
            at += model[name].numel()
        return found, at

    (old, _), (new, size) = places(before), places(now)
    ((_, buffer),) = vectors[0].items()
    for what in ("param", "exp_avg", "exp_avg_sq"):
        vector = torch.zeros(size)
        for name in now:
            vector[new[name]] = buffer[what][old[name]]
        buffer[what] = vector
    buffer["numel_unpadded"] = size


def check_transformer_engine(tpx, source, extra):
    with tempfile.TemporaryDirectory() as folder:
        old = Path(folder, "old")
        shutil.copytree(FIXTURES / source / "ckpt", old)
        for path in old.rglob("model_optim_rng.pt"):
            state, vectors = torch.load(path, weights_only=False), path.with_name("distrib_optim.pt")
            own = torch.load(vectors, weights_only=False) if vectors.exists() else None
            as_if_by_transformer_engine(state, own, extra)
            torch.save(state, path)
            if own is not None:
                torch.save(own, vectors)
        # The original has no extra states to compare with.
        done = subprocess.run([tpx, "verify", "--ignore", "extra,args", old, FIXTURES / source / "ckpt"], capture_output=True, text=True)
        if done.returncode != 0 or "not compared" in done.stderr:
            return [f"exit status {done.returncode}: {done.stdout} {done.stderr}"]
        done = subprocess.run([tpx, "reshard", old, Path(folder, "out"), "--to", "tp=1", "--format", "torch_dist"], capture_output=True, text=True)
        told = "TransformerEngine extra states" in done.stderr
        content = extra()
        holds = content.numel() > 0 if torch.is_tensor(content) else b"FP8" in content.getvalue()
        return [] if done.returncode == 0 and told == holds else [f"told of extra states: {told}; {done.stderr}"]


def stream_of_nothing():
    """The extra state of TransformerEngine before 1.7 without FP8."""
    stream = io.BytesIO()
    torch.save(None, stream)
    return stream


EXTRA = {
    "nothing": lambda: torch.empty(0, dtype=torch.uint8), "scales": lambda: torch.arange(90, dtype=torch.uint8),
    "a stream": lambda: io.BytesIO(b"scales of FP8" * 200), "a stream of nothing": stream_of_nothing,
}  # fmt: skip


def main(tpx):
    if not FIXTURES.is_dir():
        print(f"skipped: no folder of checkpoints at {FIXTURES}; $TPX_FIXTURES may name one")
        return 77
    failed = 0
    for source, layout, like in CASES:
        faults = check(tpx, source, layout, like)
        failed += bool(faults)
        print(f"{'FAIL' if faults else 'ok'}: {source} to {layout}, as {like}")
        for line in faults[:12]:
            print(f"  {line}")
    for source in ("llama-opt-legacy-tp1pp1", "llama-opt-legacy-tp2pp1dp2-distopt", "llama-opt-legacy-tp2pp2"):
        for what, extra in EXTRA.items():
            faults = check_transformer_engine(tpx, source, extra)
            failed += bool(faults)
            print(f"{'FAIL' if faults else 'ok'}: {source}, as TransformerEngine names it, with {what} as extra state")
            for line in faults[:12]:
                print(f"  {line[:900]}")
    for source in ("gpt2-small-legacy-tp1pp1", "gpt2-small-legacy-tp2pp1", "gpt2-small-legacy-tp1pp3"):
        for version in (0, 1, 2):
            faults = check_before(tpx, source, version)
            failed += bool(faults)
            print(f"{'FAIL' if faults else 'ok'}: {source}, as checkpoint_version {version} had it")
            for line in faults[:12]:
                print(f"  {line[:900]}")
    return 1 if failed else 0
