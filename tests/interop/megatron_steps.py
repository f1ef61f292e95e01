# SPDX-License-Identifier: Apache-2.0
"""Megatron-core with its optimizers, on CPU ranks: after loading a checkpoint that tpx made, one more step gives the
same loss and weights, bit for bit, as after loading Megatron's own checkpoint; and tpx reads the checkpoints that
Megatron writes with other degrees, with experts, tied embeddings and buckets, as the same state."""
import argparse
import hashlib
import subprocess
import tempfile
from pathlib import Path

import torch
import torch.distributed as dist

import load_megatron as megatron
from digests import read
from ranks import on_ranks, queue_of_rank
from run import FIXTURES

import megatron.core.optimizer as optimizers
import megatron.core.optimizer.distrib_optimizer as distrib_optimizer
from megatron.core import dist_checkpointing, parallel_state, tensor_parallel
from megatron.core.dist_checkpointing.strategies import filesystem_async
from megatron.core.dist_checkpointing.validation import StrictHandling
from megatron.core.distributed import DistributedDataParallel, DistributedDataParallelConfig, finalize_model_grads
from megatron.core.optimizer import OptimizerConfig, get_megatron_optimizer


_type = torch.Tensor.type


def _type_on_gpu(self, *args, **kwargs):
    """The type of a tensor as if it were on a GPU, which optimizers check by the type."""
    name = _type(self, *args, **kwargs)
    return name if args or kwargs or "cuda" in name else name.replace("torch.", "torch.cuda.")


torch.Tensor.type = _type_on_gpu
torch.cuda.random.get_rng_state = lambda *_, **__: torch.zeros(16, dtype=torch.uint8)
torch.cuda.random.set_rng_state = lambda *_, **__: None


class _Adam(torch.optim.Optimizer):
    """AdamW that keeps its state like the fused ones of Apex and TransformerEngine: the step is in the group."""

    def __init__(self, params, lr, betas, eps, weight_decay, **_):
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay, "bias_correction": True})

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            group["step"] = group.get("step", 0) + 1
            first, second = group["betas"]
            for master in [p for p in group["params"] if p.grad is not None]:
                state = self.state[master]
                if not state:
                    state.update(exp_avg=torch.zeros_like(master), exp_avg_sq=torch.zeros_like(master))
                state["exp_avg"].lerp_(master.grad, 1 - first)
                state["exp_avg_sq"].mul_(second).addcmul_(master.grad, master.grad, value=1 - second)
                scale = (state["exp_avg_sq"] / (1 - second ** group["step"])).sqrt_().add_(group["eps"])
                master.mul_(1 - group["lr"] * group["weight_decay"])
                master.addcdiv_(state["exp_avg"], scale, value=-group["lr"] / (1 - first ** group["step"]))


optimizers.Adam = distrib_optimizer.Adam = _Adam
optimizers.USING_PYTORCH_OPTIMIZER = False
distrib_optimizer.HAVE_APEX_OR_TE = distrib_optimizer.USING_APEX_OPTIMIZER = True


def _set_up(model, tp=1, pp=1, vpp=1, ep=1, etp=None, distributed=True, bucket=None):
    """Model chunks of this rank with gradient buffers, and their optimizer."""
    parallel_state.initialize_model_parallel(
        tp, pp, vpp if vpp > 1 else None, expert_model_parallel_size=ep, expert_tensor_parallel_size=etp or tp
    )
    tensor_parallel.model_parallel_cuda_manual_seed(1)
    chunks = megatron._chunks(model, tp, pp, vpp, None, None, ep, etp or tp)
    ddp = DistributedDataParallelConfig(
        use_distributed_optimizer=distributed, overlap_grad_reduce=bucket is not None, bucket_size=bucket,
        grad_reduce_in_fp32=True,
    )  # fmt: skip
    for chunk in chunks:
        chunk.config.attention_dropout = chunk.config.hidden_dropout = 0.0
    for module in (module for chunk in chunks for module in chunk.modules()):
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
    stage = parallel_state.get_pipeline_model_parallel_rank()
    wrapped = [
        DistributedDataParallel(chunk.config, ddp, chunk, disable_bucketing=stage > 0 or i > 0) for i, chunk in enumerate(chunks)
    ]
    config = OptimizerConfig(
        optimizer="adam", lr=1e-3, min_lr=1e-4, weight_decay=0.1, clip_grad=1.0, bf16=chunks[0].config.bf16,
        fp16=chunks[0].config.fp16, initial_loss_scale=2.0**14, params_dtype=chunks[0].config.params_dtype,
        use_distributed_optimizer=distributed,
    )  # fmt: skip
    optimizer = get_megatron_optimizer(config, wrapped)
    for one in optimizer.chained_optimizers:  # no state exists before the first step
        if not distributed:
            one.init_state_fn(one.optimizer, one.config)
    return chunks, wrapped, optimizer


def _state(chunks, optimizer, kind, is_loading):
    metadata = {"dp_cp_group": parallel_state.get_data_parallel_group(with_context_parallel=True)}
    metadata |= {"singleton_local_shards": False, "chained_optim_avoid_prefix": True}
    if kind:
        metadata["distrib_optim_sharding_type"] = kind
    state = {}
    for i, chunk in enumerate(chunks):
        state["model" if len(chunks) == 1 else f"model{i}"] = chunk.sharded_state_dict(metadata=metadata)
    state["optimizer"] = optimizer.sharded_state_dict(state, is_loading=is_loading, metadata=metadata)
    return state, {k: v for k, v in metadata.items() if k != "dp_cp_group"}


def _without_extra(state):
    for part in [state[name] for name in state if name.startswith("model")]:
        for name in [name for name in part if name.endswith("_extra_state")]:
            del part[name]


def _step(directory, model, distributed, tp):
    """Loads a checkpoint, makes a step, and returns the loss and this rank's weights and masters."""
    chunks, wrapped, optimizer = _set_up(model, tp, distributed=distributed)
    kind = (dist_checkpointing.load_content_metadata(directory) or {}).get("distrib_optim_sharding_type")
    state, _ = _state(chunks, optimizer, kind, True)
    _without_extra(state)
    loaded = dist_checkpointing.load(state, directory, strict=StrictHandling.ASSUME_OK_UNEXPECTED)
    for i, chunk in enumerate(chunks):
        chunk.load_state_dict(loaded["model" if len(chunks) == 1 else f"model{i}"], strict=False)
    optimizer.load_state_dict(loaded["optimizer"])
    masters = [p for group in optimizer.param_groups for p in group["params"]]
    before = [master.detach().clone() for master in masters]
    generator = torch.Generator().manual_seed(17 + parallel_state.get_data_parallel_rank())
    tokens = torch.randint(model["vocab"], (2, 17), generator=generator)
    mask = torch.ones(16, 16).triu(1).bool()[None, None]
    position = torch.arange(16).repeat(2, 1)
    loss = wrapped[0](tokens[:, :-1], position, mask, labels=tokens[:, 1:]).float().mean()
    loss.backward()
    finalize_model_grads(wrapped, None)
    optimizer.step()
    moved = sum(not torch.equal(a, b) for a, b in zip(before, masters))
    if moved < len(before):
        raise RuntimeError(f"of {len(before)} masters only {moved} moved")
    weights = {name: value.detach().clone() for name, value in chunks[0].named_parameters()}
    return loss.detach(), weights, [master.detach().clone() for master in masters]


def _same(ours, theirs):
    """Where two results of all ranks differ."""
    faults = []
    for rank, ((loss, weights, masters), (loss2, weights2, masters2)) in enumerate(zip(ours, theirs)):
        faults += [f"rank {rank}: loss {loss.item()!r} instead of {loss2.item()!r}"] if loss != loss2 else []
        faults += [f"rank {rank}: {name} differs" for name in weights if not torch.equal(weights[name], weights2[name])]
        faults += [f"rank {rank}: master {i} differs" for i, (a, b) in enumerate(zip(masters, masters2)) if not torch.equal(a, b)]
    return faults


def _run(*command):
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr


# source, layout, what Megatron wrote under it, whether the optimizer is distributed, and what lies between
CONTINUED = [
    ("llama-opt-dist-tp2pp1dp2-dp_reshardable", "tp=1,dp=2", "llama-opt-dist-tp1pp1dp2-dp_reshardable", True),
    ("llama-opt-dist-tp1pp1dp2-fully_reshardable", "tp=1,dp=2", "llama-opt-dist-tp1pp1dp2-fully_reshardable", True, "universal"),
    ("llama-opt-dist-tp1pp1dp4-dp_reshardable-buckets", "tp=1,dp=2", "llama-opt-dist-tp1pp1dp2-fully_reshardable", True),
    ("llama-opt-legacy-tp1pp2dp2-distopt-buckets", "tp=2", "llama-opt-dist-tp2pp1dp2-fully_reshardable", True),
    ("llama-opt-dist-tp1pp1dp2-dp_zero_gather_scatter", "tp=2", "llama-opt-dist-tp2pp2", False),
    ("llama-opt-dist-tp2pp2", "tp=1", "llama-opt-dist-tp1pp1", False),
]


def continued(tpx, source, layout, like, distributed, between=None):
    facts = read(FIXTURES / "megatron" / like / "fixture.json")
    degrees = dict(pair.split("=") for pair in layout.split(","))
    tp, dp = int(degrees.get("tp", 1)), int(degrees.get("dp", 1))
    with tempfile.TemporaryDirectory() as folder:
        out, first = Path(folder, "out"), FIXTURES / "megatron" / source / "ckpt"
        padding = []
        if between:
            status, said = _run(tpx, "reshard", first, Path(folder, between), "--to", "tp=1", "--format", between, "--quiet")
            if status:
                return [said]
            first, padding = Path(folder, between), ["--set", "make_vocab_size_divisible_by=4"]
        status, said = _run(tpx, "reshard", first, out, "--to", layout, "--format", "torch_dist",
                            "--quiet", "--set", f"use_distributed_optimizer={str(distributed).lower()}", *padding)  # fmt: skip
        if status:
            return [said]
        results = []
        for checkpoint in (out, FIXTURES / "megatron" / like / "ckpt"):
            directory = megatron.iteration_directory(str(checkpoint))
            results.append(on_ranks(tp * dp, _step, directory, facts["model"], distributed, tp))
        return _same(*results)


def _values(what, name, parameter, chunk, tied):
    """The results that are equal on all ranks that hold a parameter."""
    place = [what, name if not tied or name != "output_layer.weight" else "embedding.word_embeddings.weight"]
    if ".layers." in name:
        place += [chunk, parallel_state.get_pipeline_model_parallel_rank()]
    if not getattr(parameter, "allreduce", True):
        place += ["expert", parallel_state.get_expert_model_parallel_rank(), parallel_state.get_expert_tensor_parallel_rank()]
    elif getattr(parameter, "tensor_model_parallel", False):
        place += ["tp", parallel_state.get_tensor_model_parallel_rank()]
    seed = int.from_bytes(hashlib.sha256(repr(place).encode()).digest()[:7], "little")
    return torch.randn(parameter.shape, generator=torch.Generator().manual_seed(seed)) * 0.05


def _write(kinds, model, bucket, degrees):
    """Checkpoints by Megatron-core whose state depends only on `model` and `degrees`: {directory: sharding type}."""
    filesystem_async._results_queue = queue_of_rank()
    chunks, _, optimizer = _set_up(model, bucket=bucket, **degrees)
    names = {p: (n, i, p) for i, chunk in enumerate(chunks) for n, p in chunk.named_parameters()}
    for name, i, parameter in names.values():
        parameter.data.copy_(_values("param", name, parameter, i, model["tied"]))
    for one in optimizer.chained_optimizers:
        if one.is_stub_optimizer:
            continue
        one._init_optimizer_states_with_dummy_values()
        for parameter in one.model_param_gbuf_map:
            name, i, _ = names[parameter]
            own = one._get_model_param_range_map(parameter)["param"]
            tensors = {what: _values(what, name, parameter, i, model["tied"]).flatten() for what in ("param", "exp_avg", "exp_avg_sq")}
            tensors["exp_avg_sq"].abs_()
            one._set_main_param_and_optimizer_states(parameter, {k: v[own.start : own.end] for k, v in tensors.items()})
        for group in one.optimizer.param_groups:
            group["step"] = 10
    tp, pp, vpp, ep = (degrees.get(axis, 1) for axis in ("tp", "pp", "vpp", "ep"))
    args = argparse.Namespace(
        tensor_model_parallel_size=tp, pipeline_model_parallel_size=pp, expert_model_parallel_size=ep,
        expert_tensor_parallel_size=degrees.get("etp") or tp, virtual_pipeline_model_parallel_size=vpp if vpp > 1 else None,
        context_parallel_size=1, world_size=dist.get_world_size(), data_parallel_size=dist.get_world_size() // tp // pp,
        num_layers=model["layers"], hidden_size=model["hidden"], ffn_hidden_size=model["ffn"], kv_channels=model["kv_channels"],
        num_attention_heads=model["heads"], group_query_attention=model["kv_heads"] != model["heads"],
        num_query_groups=model["kv_heads"], swiglu=model["swiglu"], normalization=model["norm"], add_bias_linear=model["bias"],
        add_qkv_bias=model["qkv_bias"], qk_layernorm=model["qk_layernorm"], position_embedding_type=model["position"],
        max_position_embeddings=model["max_position"], untie_embeddings_and_output_weights=not model["tied"],
        padded_vocab_size=megatron._padded(model, tp), vocab_size=model["vocab"],
        make_vocab_size_divisible_by=model["make_vocab_size_divisible_by"], num_experts=model.get("experts"),
        moe_ffn_hidden_size=model.get("moe_ffn"), moe_router_topk=model.get("topk"), moe_layer_freq=model.get("moe_layer_freq", 1),
        moe_grouped_gemm=False, transformer_impl="local", use_distributed_optimizer=True, overlap_grad_reduce=bucket is not None,
        ddp_bucket_size=bucket, bf16=True, ckpt_format="torch_dist",
    )  # fmt: skip
    for directory, kind in kinds.items():
        state, metadata = _state(chunks, optimizer, kind, False)
        state |= {"args": args, "checkpoint_version": 3.0, "iteration": 10}
        if dist.get_rank() == 0:
            Path(directory).mkdir(parents=True)
        dist.barrier()
        dist_checkpointing.save(state, directory, content_metadata=metadata)


# model, number of ranks, degrees: with experts, with virtual stages
WRITTEN = [
    ("moe-x-dist-tp1pp1ep2dp2", 4, {"ep": 2}),
    ("moe-x-dist-tp1pp1ep2dp2", 4, {"tp": 2, "ep": 2, "etp": 1}),
    ("moe-x-dist-tp1pp1ep2dp2", 4, {"pp": 2, "ep": 2}),
    ("moe-x-dist-tp1pp1ep2dp2", 4, {"ep": 2, "etp": 2}),
    ("llama-small-dist-tp1pp1", 4, {"pp": 2, "vpp": 2}),
]


def written(tpx, like, ranks, degrees):
    """Megatron wrote the same state in buckets, as blobs and in whole tensors; several buckets in whole tensors are
    wrong."""
    model = read(FIXTURES / "megatron" / like / "fixture.json")["model"]
    faults = []
    with tempfile.TemporaryDirectory() as folder:
        whole = {"whole": "fully_reshardable", "one": "dp_reshardable"}
        many = {"buckets": "dp_reshardable", "blobs": "dp_zero_gather_scatter", "shifted": "fully_reshardable"}
        for kinds, bucket in ((whole, None), (many, 3000)):
            on_ranks(ranks, _write, {f"{folder}/{name}": kind for name, kind in kinds.items()}, model, bucket, degrees)
        for name in ("one", "buckets", "blobs"):
            status, said = _run(tpx, "verify", "--ignore", "rng", f"{folder}/whole", f"{folder}/{name}")
            faults += [f"{name}: {said.strip()[-900:]}"] if status or "not compared" in said else []
        status, said = _run(tpx, "verify", "--masters", f"{folder}/buckets")
        faults += [f"--masters buckets: {said[-600:]}"] if status else []
        status, said = _run(tpx, "verify", "--masters", f"{folder}/shifted")
        _, seen = _run(tpx, "inspect", f"{folder}/shifted")
        shifted = "follow a padded bucket" in seen
        _, checked = _run(tpx, "verify", f"{folder}/shifted")
        _, resharded = _run(tpx, "reshard", f"{folder}/shifted", f"{folder}/new", "--to", "tp=1", "--dry-run")
        for command, text in (("verify", checked), ("reshard", resharded)):
            if ("follow a padded bucket" in text) != shifted:
                faults.append(f"shifted: {command} {'does not warn' if shifted else 'warns'}")
        if (status == 3) != shifted:
            faults.append(f"shifted: inspect {'tells' if shifted else 'does not tell'} of it, verify --masters ends with {status}")
    return faults


def main(tpx):
    if not FIXTURES.is_dir():
        print(f"skipped: no folder of checkpoints at {FIXTURES}; $TPX_FIXTURES may name one")
        return 77
    failed = 0
    for case in CONTINUED:
        faults = continued(tpx, *case)
        failed += bool(faults)
        way = f" through {case[4]}" if len(case) > 4 else ""
        print(f"{'FAIL' if faults else 'ok'}: {case[0]} to {case[1]}{way}, one more step as after {case[2]}", flush=True)
        for line in faults[:12]:
            print(f"  {line}")
    for case in WRITTEN:
        faults = written(tpx, *case)
        failed += bool(faults)
        print(f"{'FAIL' if faults else 'ok'}: model of {case[0]}, {case[1]} ranks, {case[2]}", flush=True)
        for line in faults[:12]:
            print(f"  {line}")
    return 1 if failed else 0


