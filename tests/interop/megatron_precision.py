# SPDX-License-Identifier: Apache-2.0
"""Megatron-core in single precision, whose optimizers have no masters, and in half precision with a loss scale: tpx
finds the same state in every form in which Megatron-core saves it; rank files that tpx makes from any form equal
Megatron's, and checkpoints that it makes load like Megatron's own: parameters, masters, moments, groups and scale, bit
for bit."""
import argparse
import hashlib
import tempfile
from pathlib import Path

import torch
import torch.distributed as dist

import load_megatron as megatron
import megatron_steps as steps
from outcomes import Outcomes
from rank_files import differences, files
from ranks import on_ranks, queue_of_rank

from megatron.core import dist_checkpointing, parallel_state
from megatron.core.dist_checkpointing.strategies import filesystem_async
from megatron.core.dist_checkpointing.validation import StrictHandling

MODEL = {
    "layers": 2, "hidden": 32, "ffn": 48, "heads": 4, "kv_heads": 2, "kv_channels": 8, "norm": "RMSNorm", "bias": False,
    "qkv_bias": False, "qk_layernorm": False, "swiglu": True, "make_vocab_size_divisible_by": 4, "vocab": 67,
    "max_position": 32, "position": "rope", "tied": False,
}  # fmt: skip
WRITTEN = {  # by name: ranks, degrees, kind of optimizer
    "plain": (1, {}, None),
    "plain-tp2pp2": (4, {"tp": 2, "pp": 2}, None),
    "whole-dp2": (2, {}, "fully_reshardable"),
    "buckets-dp2": (2, {}, "dp_reshardable"),
    "buckets-tp2": (2, {"tp": 2}, "dp_reshardable"),
    "blobs-tp2dp2": (4, {"tp": 2}, "dp_zero_gather_scatter"),
}
LAYOUTS = {"plain": "tp=1", "plain-tp2pp2": "tp=2,pp=2", "whole-dp2": "dp=2", "buckets-tp2": "tp=2"}


def value(what, model, chunk, name, parameter):
    """A parameter's part of a tensor of the whole model, whose values depend only on its name."""
    whole = name
    if name.startswith("decoder.layers."):
        local = int(name.split(".")[2])
        whole = name.replace(f".{local}.", f".{chunk.decoder.layers[local].layer_number - 1}.", 1)
    tp, rank = parallel_state.get_tensor_model_parallel_world_size(), parallel_state.get_tensor_model_parallel_rank()
    generator = torch.Generator().manual_seed(int.from_bytes(hashlib.sha256(f"{what} {whole}".encode()).digest()[:7], "little"))
    shape = list(parameter.shape)
    if "word_embeddings" in name or name == "output_layer.weight":
        full = torch.randn([2 * model["vocab"], *shape[1:]], generator=generator) * 0.05
        full[model["vocab"] :] = 0
        return full[: shape[0] * tp].chunk(tp)[rank].clone()
    axis = 0 if "linear_qkv." in name or "linear_fc1." in name else 1 if "linear_proj." in name or "linear_fc2." in name else None
    if axis is not None:
        shape[axis] *= tp
    full = torch.randn(shape, generator=generator) * 0.05
    if axis is None:
        return full
    halves = full.chunk(2) if "linear_fc1." in name else [full]
    return torch.cat([half.chunk(tp, axis)[rank] for half in halves])


def master_of(model, parameter, fraction):
    """A value that rounds to the parameter."""
    exact = parameter.detach().float()
    return exact if model["dtype"] == "f32" else exact + fraction * 1e-3 * exact.abs()


@torch.no_grad()
def fill(model, chunks, optimizer, distributed):
    names = {parameter: (chunk, name) for chunk in chunks for name, parameter in chunk.named_parameters()}
    for one in optimizer.chained_optimizers if distributed else []:
        one._init_optimizer_states_with_dummy_values()
    for parameter, (chunk, name) in names.items():
        parameter.data.copy_(value("weight", model, chunk, name, parameter))
    for one in optimizer.chained_optimizers:
        if distributed:
            masters = {parameter: None for parameter in one.model_param_gbuf_map}
        elif model["dtype"] == "f32":
            masters = {parameter: parameter for group in one.optimizer.param_groups for parameter in group["params"]}
        else:
            groups = zip(one.float16_groups, one.fp32_from_float16_groups)
            masters = {parameter: master for pair in groups for parameter, master in zip(*pair)}
        for parameter, master in masters.items():
            state = {what: value(what, model, *names[parameter], parameter) for what in ("exp_avg", "exp_avg_sq", "fraction")}
            state = {"param": master_of(model, parameter, state.pop("fraction")), "exp_avg_sq": state.pop("exp_avg_sq").abs(), **state}
            if distributed:
                own = one._get_model_param_range_map(parameter)["param"]
                own = {what: tensor.flatten()[own.start : own.end] for what, tensor in state.items()}
                one._set_main_param_and_optimizer_states(parameter, own)
                continue
            if master is not parameter:
                master.copy_(state["param"])
            for what in ("exp_avg", "exp_avg_sq"):
                one.optimizer.state[master][what].copy_(state[what])
        for group in one.optimizer.param_groups:
            group["step"] = 10


def args_of(model, degrees, distributed):
    tp, pp = degrees.get("tp", 1), degrees.get("pp", 1)
    return argparse.Namespace(
        tensor_model_parallel_size=tp, pipeline_model_parallel_size=pp, expert_model_parallel_size=1,
        expert_tensor_parallel_size=tp, virtual_pipeline_model_parallel_size=None, context_parallel_size=1,
        world_size=dist.get_world_size(), data_parallel_size=dist.get_world_size() // tp // pp, num_layers=model["layers"],
        hidden_size=model["hidden"], ffn_hidden_size=model["ffn"], kv_channels=model["kv_channels"],
        num_attention_heads=model["heads"], group_query_attention=True, num_query_groups=model["kv_heads"], swiglu=True,
        normalization=model["norm"], add_bias_linear=False, add_qkv_bias=False, qk_layernorm=False,
        position_embedding_type="rope", max_position_embeddings=model["max_position"], padded_vocab_size=megatron._padded(model, tp),
        untie_embeddings_and_output_weights=True, vocab_size=model["vocab"], transformer_impl="local", num_experts=None,
        make_vocab_size_divisible_by=model["make_vocab_size_divisible_by"], use_distributed_optimizer=distributed,
        overlap_grad_reduce=False, ddp_bucket_size=None, bf16=False, fp16=model["dtype"] == "f16", ckpt_format="torch_dist",
        accumulate_allreduce_grads_in_fp32=True,
    )  # fmt: skip


def write(out, model, degrees, kind):
    """The same state in OUT/dist and, as rank files, in OUT/legacy."""
    filesystem_async._results_queue = queue_of_rank()
    chunks, _, optimizer = steps._set_up(model, distributed=kind is not None, **degrees)
    fill(model, chunks, optimizer, kind is not None)
    common = {"args": args_of(model, degrees, kind is not None), "checkpoint_version": 3.0, "iteration": 10}
    state, metadata = steps._state(chunks, optimizer, kind, False)
    tp, pp = (f() for f in (parallel_state.get_tensor_model_parallel_rank, parallel_state.get_pipeline_model_parallel_rank))
    ranks = Path(out, "legacy/iter_0000010", f"mp_rank_{tp:02d}" + (f"_{pp:03d}" if degrees.get("pp", 1) > 1 else ""))
    leads = parallel_state.get_data_parallel_rank() == 0
    Path(out, "dist/iter_0000010").mkdir(parents=True, exist_ok=True)
    ranks.mkdir(parents=True, exist_ok=True)
    for form in ("dist", "legacy"):
        Path(out, form, "latest_checkpointed_iteration.txt").write_text("10")
    dist.barrier()
    dist_checkpointing.save(state | common, f"{out}/dist/iter_0000010", content_metadata=metadata)
    common["args"].ckpt_format = "torch"
    if kind:
        optimizer.save_parameter_state(str(ranks / "distrib_optim.pt"))
    if leads:
        model_state = {"model": chunks[0].state_dict_for_save_checkpoint(), "optimizer": optimizer.state_dict()}
        torch.save(common | model_state, ranks / "model_optim_rng.pt")


def copy_of(tree):
    if isinstance(tree, dict):
        return {key: copy_of(item) for key, item in tree.items()}
    return tree.detach().clone() if torch.is_tensor(tree) else tree


def load(directory, model, degrees, distributed):
    """The content of model and optimizer after Megatron has loaded a torch_dist checkpoint."""
    chunks, _, optimizer = steps._set_up(model, distributed=distributed, **degrees)
    kind = (dist_checkpointing.load_content_metadata(directory) or {}).get("distrib_optim_sharding_type")
    state, _ = steps._state(chunks, optimizer, kind, True)
    steps._without_extra(state)
    loaded = dist_checkpointing.load(state, directory, strict=StrictHandling.ASSUME_OK_UNEXPECTED)
    chunks[0].load_state_dict(loaded["model"], strict=False)
    optimizer.load_state_dict(loaded["optimizer"])
    held = {"model": copy_of(dict(chunks[0].named_parameters())), "groups": [], "scale": []}
    for one in optimizer.chained_optimizers:
        held["scale"].append(one.grad_scaler.state_dict() if getattr(one, "grad_scaler", None) else None)
        for group in one.optimizer.param_groups:
            own = {key: item for key, item in group.items() if key != "params"}
            own |= {i: {"master": p, **one.optimizer.state[p]} for i, p in enumerate(group["params"])}
            held["groups"].append(copy_of(own))
    return held


def same_files(ours, theirs):
    faults = [f"{path}: on one side only" for path in files(ours) ^ files(theirs)]
    for path in sorted(path for path in files(ours) & files(theirs) if path.suffix == ".pt"):
        trees = [torch.load(folder / path, weights_only=False) for folder in (ours, theirs)]
        if isinstance(trees[0], dict):
            trees = [{key: item for key, item in tree.items() if key != "args"} for tree in trees]
        faults += [f"{path}: {line}" for line in differences(*trees)]
    return faults


def same_loaded(ours, theirs, ranks, *how):
    held = [on_ranks(ranks, load, str(folder / "iter_0000010"), *how) for folder in (ours, theirs)]
    return [f"rank {rank}: {line}" for rank in range(ranks) for line in differences(held[0][rank], held[1][rank])]


def made_of(tpx, source, like, model, folder):
    """Faults of tpx's conversion of `source` to the layout in which Megatron wrote `like`."""
    ranks, degrees, kind = WRITTEN[like]
    faults = []
    for form, name in (("legacy", "megatron"), ("dist", "torch_dist")):
        with tempfile.TemporaryDirectory() as scratch:
            out = Path(scratch, "out")
            status, said = steps._run(tpx, "reshard", source, out, "--to", LAYOUTS[like], "--format", name, "--quiet",
                                      "--set", f"use_distributed_optimizer={'true' if kind else 'false'}")  # fmt: skip
            if status:
                faults.append(said)
            elif form == "legacy":
                faults += same_files(out, folder / like / form)
            elif kind is None or kind == "fully_reshardable":
                faults += same_loaded(out, folder / like / form, ranks, model, degrees, kind is not None)
    return faults


def main(tpx):
    outcomes = Outcomes()
    report = outcomes.report

    for dtype in ("f32", "f16"):
        model = MODEL | {"dtype": dtype}
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            for case, (ranks, degrees, kind) in WRITTEN.items():
                on_ranks(ranks, write, folder / case, model, degrees, kind)
            for source in (folder / case / form for case in WRITTEN for form in ("dist", "legacy")):
                what = f"{dtype} {source.relative_to(folder)}"
                status, said = steps._run(tpx, "verify", "--ignore", "rng", folder / "plain/dist", source)
                report(f"{what} is the same state", [said] if status else [])
                status, said = steps._run(tpx, "verify", "--masters", source)
                report(f"{what}: masters fit", [said] if status else [])
            for source, likes in (("plain/dist", LAYOUTS), ("plain-tp2pp2/legacy", LAYOUTS), ("buckets-dp2/dist", ["plain-tp2pp2", "whole-dp2"]),
                                  ("blobs-tp2dp2/dist", ["plain"]), ("whole-dp2/legacy", ["plain-tp2pp2", "buckets-tp2"])):  # fmt: skip
                for like in likes:
                    report(f"{dtype} {source} as {like}", made_of(tpx, folder / source, like, model, folder))
    return outcomes.status()
