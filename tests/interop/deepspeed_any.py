# SPDX-License-Identifier: Apache-2.0
"""DeepSpeed's engine trains transformers' Llama and a small model of no family. Its checkpoints are converted to
Megatron's and PyTorch's formats, including optimizer state, and compared with an independent computation. From there
they are converted back to universal checkpoints, which the engine loads: it must continue as if nothing had been
converted.
"""
import json
import multiprocessing
import os
import runpy
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import engine
from engine import LLAMA, SKIPPED, Run, judge, train

SOURCES = [
    Run("llama1", 2, 1, steps=3, llama=True),
    Run("llama3", 2, 3, steps=3, llama=True, options={"sub_group_size": 3000}),
    Run("bf16opt", 2, 1, steps=3, llama=True, accumulate="fp32"),
    Run("toy", 2, 2, steps=3),
]
CONFIG = ["--set", "make_vocab_size_divisible_by=1"]
# Conversions by tpx: the source, the result, and the engine that loads it.
MADE = [
    ("a", "llama1", "tp=2,pp=2,dp=2", "torch_dist", CONFIG, None),
    ("b", "a", "tp=1", "universal", [], {"dp": 4, "zero": 1, "universal": True}),
    ("c", "llama1", "tp=2,dp=2", "megatron", CONFIG, None),
    ("d", "c", "tp=1", "universal", [], {"dp": 2, "zero": 1, "universal": True}),
    ("e", "llama1", "fsdp=4", "dcp", [], None),
    ("f", "e", "tp=1", "universal", ["--dtype", "bf16"], {"dp": 2, "zero": 1, "universal": True}),
    ("g", "llama1", "fsdp=2", "dcp", ["--dialect", "hf"], None),
    ("h", "g", "zero=3", "universal", ["--dtype", "bf16"], {"dp": 2, "zero": 3, "universal": True}),
    ("i", "llama3", "tp=2", "torch_dist", CONFIG, None),
    ("j", "i", "zero=3", "universal", [], {"dp": 4, "zero": 3, "universal": True}),
    ("k", "bf16opt", "pp=2", "torch_dist", CONFIG, None),
    ("l", "k", "tp=1", "universal", [], {"dp": 4, "zero": 1, "universal": True}),
    ("m", "b", "tp=4", "torch_dist", CONFIG, None),
    ("n", "toy", "fsdp=2", "dcp", [], None),
    ("o", "n", "tp=1", "universal", ["--dtype", "bf16"], {"dp": 4, "zero": 2, "universal": True}),
]


def reshard(tpx, source, out, layout, kind, more):
    done = subprocess.run([tpx, "reshard", source, out, "--to", layout, "--format", kind, "-q", *more], capture_output=True, text=True)
    return [] if done.returncode == 0 else [f"exit status {done.returncode}: {done.stderr.strip()}"]


def ds_to_universal(source, out):
    """Runs DeepSpeed's own converter in a forked process, which does not import DeepSpeed again."""

    def convert():
        log = os.open(f"{out}.log", os.O_CREAT | os.O_WRONLY)
        os.dup2(log, 1)
        os.dup2(log, 2)
        words = ["--input_folder", source / "global_step2", "--output_folder", out, "--inject_missing_state", "--num_extract_workers", 1, "--num_merge_workers", 1]
        sys.argv = ["ds_to_universal", *map(str, words)]
        runpy.run_module("deepspeed.checkpoint.ds_to_universal", run_name="__main__")

    process = multiprocessing.get_context("fork").Process(target=convert)
    process.start()
    process.join()
    assert process.exitcode == 0, Path(f"{out}.log").read_text()


def theirs(source, out):
    """Name -> state -> tensor, by DeepSpeed's own converter."""
    import torch

    ds_to_universal(source, out)
    found = {}
    for path in (out / "zero").rglob("*.pt"):
        if path.parent.name == "zero" or path.stem == "step" or not (path.parent / "exp_avg.pt").exists():
            continue
        value = torch.load(path, weights_only=False)
        found.setdefault(path.parent.name, {})[path.stem] = value["param"] if isinstance(value, dict) else value
    return found


def shapes():
    import torch

    with torch.device("meta"):
        return {name: p.shape for name, p in engine.llama().named_parameters()}


def megatron(state):
    """The tensors of one state in Megatron-core's form, computed by hand: groups of q, k and v, gate and up, stacked
    layers."""
    import torch

    heads, groups, layers = LLAMA["num_attention_heads"], LLAMA["num_key_value_heads"], range(LLAMA["num_hidden_layers"])
    size = LLAMA["hidden_size"] // heads

    def qkv(layer):
        q, k, v = (state[f"model.layers.{layer}.self_attn.{x}_proj.weight"] for x in "qkv")
        rows = heads // groups * size
        return torch.cat([torch.cat([q[g * rows : (g + 1) * rows], k[g * size : (g + 1) * size], v[g * size : (g + 1) * size]]) for g in range(groups)])

    def stacked(name):
        return torch.stack([state[f"model.layers.{i}.{name}.weight"] for i in layers])

    return {
        "embedding.word_embeddings.weight": state["model.embed_tokens.weight"],
        "decoder.layers.self_attention.linear_qkv.weight": torch.stack([qkv(i) for i in layers]),
        "decoder.layers.self_attention.linear_qkv.layer_norm_weight": stacked("input_layernorm"),
        "decoder.layers.self_attention.linear_proj.weight": stacked("self_attn.o_proj"),
        "decoder.layers.mlp.linear_fc1.weight": torch.cat([stacked("mlp.gate_proj"), stacked("mlp.up_proj")], 1),
        "decoder.layers.mlp.linear_fc1.layer_norm_weight": stacked("post_attention_layernorm"),
        "decoder.layers.mlp.linear_fc2.weight": stacked("mlp.down_proj"),
        "decoder.final_layernorm.weight": state["model.norm.weight"],
        "output_layer.weight": state["lm_head.weight"],
    }


def stored(folder):
    """Key -> tensor of a torch_dist or DCP folder, by PyTorch."""
    import torch
    import torch.distributed.checkpoint as dcp
    from torch.distributed.checkpoint.metadata import TensorStorageMetadata

    reader = dcp.FileSystemReader(folder)
    metadata = reader.read_metadata().state_dict_metadata
    state = {k: torch.empty(m.size, dtype=m.properties.dtype) for k, m in metadata.items() if isinstance(m, TensorStorageMetadata)}
    others = {k: None for k, m in metadata.items() if k not in state and "param_groups" in k}
    planner = dcp.DefaultLoadPlanner(flatten_state_dict=False, flatten_sharded_tensors=False)
    dcp.load(state | others, storage_reader=reader, planner=planner, no_dist=True)
    return state


def unequal(found, wanted):
    import torch

    lines = [f"{key} is missing" for key in wanted if key not in found]
    for key in wanted.keys() & found.keys():
        rows = found[key].narrow(-2, 0, wanted[key].shape[-2]) if found[key].dim() > 1 else found[key]  # without padding
        if rows.dtype != wanted[key].dtype or not torch.equal(rows, wanted[key]):
            lines.append(f"{key} differs")
    return lines


def check_torch_dist(folder, source):
    import torch

    by_state = {s: {n: t[s] for n, t in source.items()} for s in ("fp32", "exp_avg", "exp_avg_sq")}
    wanted = {}
    for state, called in (("fp32", "param"), ("exp_avg", "exp_avg"), ("exp_avg_sq", "exp_avg_sq")):
        wanted |= {f"optimizer.state.{called}.{k}": v for k, v in megatron(by_state[state]).items()}
    wanted |= {k: v.to(torch.bfloat16) for k, v in megatron(by_state["fp32"]).items()}
    step = next(folder.glob("iter_*"))
    common = torch.load(step / "common.pt", weights_only=False)
    groups = {g["wd_mult"]: g for g in common["optimizer"]["optimizer"]["param_groups"]}
    told = [(groups[x]["lr"], groups[x]["weight_decay"], groups[x]["step"]) for x in (1.0, 0.0)]
    faults = [] if told == [(1e-2, 0.1, 2), (2e-3, 0.0, 2)] else [f"param_groups tell {told}"]
    return faults + unequal(stored(step), wanted)


def check_dcp(folder, source):
    """The same for formats that keep names."""
    import torch

    found = stored(folder)
    wanted = {n: t["fp32"] for n, t in source.items()}
    for state in ("exp_avg", "exp_avg_sq"):
        wanted |= {f"optimizer.state.{n}.{state}": t[state] for n, t in source.items()}
    wanted |= {f"optimizer.state.{n}.step": torch.tensor(2.0) for n in source}
    return unequal(found, wanted)


def load_into_fsdp(folder, source):
    """PyTorch's own AdamW loads the state by the names of the module."""
    import torch
    import torch.distributed.checkpoint as dcp
    from torch.distributed.checkpoint.state_dict import get_optimizer_state_dict, set_optimizer_state_dict, StateDictOptions

    net = engine.llama()
    groups = [{"params": [p for p in net.parameters() if p.dim() > 1]}, {"params": [p for p in net.parameters() if p.dim() == 1]}]
    adam = torch.optim.AdamW(groups, lr=1.0)
    for p in net.parameters():
        p.grad = torch.zeros_like(p)
    adam.step()
    flat = StateDictOptions(flatten_optimizer_state_dict=True)
    state = get_optimizer_state_dict(net, adam, options=flat)
    own = net.state_dict()
    called = {f"optimizer.{k}": v for k, v in state.items()}
    dcp.load(whole := {**own, **called}, checkpoint_id=folder, no_dist=True)
    set_optimizer_state_dict(net, adam, {k: whole[f"optimizer.{k}"] for k in state}, options=flat)
    net.load_state_dict({k: whole[k] for k in own})
    faults = [] if [(g["lr"], g["weight_decay"]) for g in adam.param_groups] == [(1e-2, 0.1), (2e-3, 0.0)] else ["AdamW has other settings"]
    for name, p in net.named_parameters():
        has = {"fp32": p, **adam.state[p]}
        faults += [f"{name}: AdamW has another {s}" for s in ("fp32", "exp_avg", "exp_avg_sq") if not torch.equal(has[s].detach(), source[name][s].view_as(p))]
        faults += [] if adam.state[p]["step"] == 2 else [f"{name}: AdamW is at step {adam.state[p]['step']}"]
    return faults


def mixed_up(tpx, scratch):
    """DeepSpeed's converter assigns round-robin partitions to wrong parameters: both checks must find that, but accept
    tpx's conversion."""
    data = Path(__file__).resolve().parents[2] / "testdata/deepspeed/zero2-roundrobin-dp4"
    bad, good = Path(scratch, "mixed-up"), Path(scratch, "straight")
    ds_to_universal(data, bad)
    faults = reshard(tpx, data, good, "tp=1", "universal", [])
    for path, status in ((bad, 3), (good, 0)):
        done = subprocess.run([tpx, "verify", "--masters", path], capture_output=True, text=True)
        faults += [] if done.returncode == status else [f"verify --masters {path.name}: exit status {done.returncode}"]
        seen = subprocess.run([tpx, "inspect", path], capture_output=True, text=True).stderr
        faults += [] if "converted from round-robin partitions (DeepSpeed 0.19.8" in seen else [f"inspect {path.name} does not tell of it"]
    print(f"{'FAIL' if faults else 'ok'}: round-robin partitions as ds_to_universal converts them")
    for line in faults:
        print(f"  {line}")
    return bool(faults)


def convert(tpx, scratch, sources):
    """Makes and checks the conversions in MADE; name -> the run that loads it."""
    failed, loads = 0, []
    config = Path(scratch, "config.json")
    config.write_text(json.dumps({**LLAMA, "model_type": "llama", "rms_norm_eps": 1e-6, "rope_theta": 10000.0}))
    truth = {name: theirs(Path(scratch, name), Path(scratch, f"{name}-theirs")) for name in ("llama1", "llama3", "toy")}
    shape_of = shapes()
    for name in ("llama1", "llama3"):
        truth[name] = {n: {s: v.view(shape_of[n]) for s, v in states.items()} for n, states in truth[name].items()}
    for name, source, layout, kind, more, how in MADE:
        first = sources[name] = sources[source]
        out = Path(scratch, name)
        given = ["--config", str(config)] if first.llama and kind != "universal" else []
        faults = reshard(tpx, Path(scratch, source), out, layout, kind, [*more, *given])
        wanted = truth.get(first.name)
        if not faults and wanted and kind == "torch_dist":
            faults = check_torch_dist(out, wanted)
        if not faults and wanted and kind == "dcp" and name != "e":
            faults = check_dcp(out, wanted) + (load_into_fsdp(out, wanted) if first.llama else [])
        failed += bool(faults)
        print(f"{'FAIL' if faults else 'ok'}: {source} as {kind} {layout}")
        for line in faults[:8]:
            print(f"  {line}")
        if how and not faults:
            like = {"options": first.options if how["zero"] == first.zero else {}, "dtype": first.dtype, "accumulate": first.accumulate, "llama": first.llama}
            loads.append((Run(name, load=str(out), **how, **like), first, source, layout, kind))
    return failed, loads


def main(tpx):
    os.environ["DS_ACCELERATOR"] = "cpu"
    try:
        import deepspeed  # noqa: F401
        import transformers  # noqa: F401
    except ImportError:
        print("skipped: DeepSpeed or transformers are not installed; scripts/interop-venv.sh installs them")
        return SKIPPED
    started = time.time()
    with tempfile.TemporaryDirectory() as scratch:
        for source in SOURCES:
            source.save = str(Path(scratch, source.name))
        wanted = train(SOURCES)
        failed, loads = convert(tpx, scratch, {source.name: source for source in SOURCES})
        failed += mixed_up(tpx, scratch)
        failed += judge(loads, wanted)
    print(f"{time.time() - started:.0f} s")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
