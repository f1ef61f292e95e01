# SPDX-License-Identifier: Apache-2.0
"""Megatron-core's states of one model under many layouts: experts in every form, latent attention with multi-token
prediction, uneven and virtual stages, context parallelism. Every tensor's values depend only on its key in torch_dist,
so all layouts have the same state. tpx must find them equal, and its conversion of one layout to another must equal
Megatron's: file by file for rank files, and bit by bit after loading for torch_dist."""
import argparse
import hashlib
import tempfile
from dataclasses import replace
from pathlib import Path

import torch
import torch.distributed as dist
import torch.nn.functional as F

import load_megatron as megatron
import megatron_precision as precision
import megatron_steps as steps
from outcomes import Outcomes
from rank_files import differences
from ranks import on_ranks, queue_of_rank

from megatron.core import dist_checkpointing, parallel_state, tensor_parallel
from megatron.core.activations import squared_relu
from megatron.core.dist_checkpointing.dict_utils import nested_values
from megatron.core.dist_checkpointing.mapping import ShardedTensor, ShardedTensorFactory
from megatron.core.dist_checkpointing.strategies import filesystem_async
from megatron.core.dist_checkpointing.validation import StrictHandling
from megatron.core.distributed import DistributedDataParallel, DistributedDataParallelConfig
from megatron.core.models.gpt import GPTModel
from megatron.core.models.gpt.gpt_layer_specs import get_gpt_decoder_block_spec, get_gpt_layer_local_spec, get_gpt_mtp_block_spec
from megatron.core.optimizer import OptimizerConfig, get_megatron_optimizer
from megatron.core.transformer import dot_product_attention, multi_latent_attention
from megatron.core.transformer.moe import grouped_gemm_util
from megatron.core.transformer.transformer_config import MLATransformerConfig, TransformerConfig

for missing in ("TELinear", "TEColumnParallelLinear"):  # used only with isinstance()
    if not isinstance(getattr(multi_latent_attention, missing, None), type):
        setattr(multi_latent_attention, missing, type(missing, (), {}))
# Grouped experts need a kernel to compute, not to be saved and loaded.
grouped_gemm_util.assert_grouped_gemm_is_available = lambda: None
_attention = dot_product_attention.DotProductAttention.__init__


def _attention_without_context(self, config, *args, **kwargs):
    """The CPU's attention, which has no parameters, refuses context parallelism."""
    degree, config.context_parallel_size = config.context_parallel_size, 1
    try:
        _attention(self, config, *args, **kwargs)
    finally:
        config.context_parallel_size = degree


dot_product_attention.DotProductAttention.__init__ = _attention_without_context

# Settings with the same name in Megatron-LM's args and TransformerConfig, then those with different names.
DENSE = {
    "common": {
        "num_layers": 6, "hidden_size": 32, "ffn_hidden_size": 48, "num_attention_heads": 4, "num_query_groups": 2,
        "kv_channels": 8, "normalization": "RMSNorm", "add_bias_linear": False, "add_qkv_bias": True, "qk_layernorm": False,
    },
    "vocab": 67, "divisible": 4, "positions": 32,
}  # fmt: skip
# Sizes without gaps between parameters: with gaps, a check in Megatron refuses to save buckets of tied models.
TIED = {**DENSE, "common": {**DENSE["common"], "hidden_size": 64, "kv_channels": 16}, "tied": True}
# Nemotron's MLP, with biases in every linear layer and LayerNorm (also of queries and keys), which has biases too.
UNGATED = {
    **DENSE,
    "common": {
        **DENSE["common"], "num_layers": 4, "normalization": "LayerNorm", "add_bias_linear": True, "qk_layernorm": True,
    },
    "ungated": True,
}  # fmt: skip
EXPERTS = {
    **DENSE,
    "common": {
        **DENSE["common"], "num_layers": 2, "moe_ffn_hidden_size": 24, "moe_router_topk": 2,
        "moe_token_dispatcher_type": "alltoall",
    },
    "experts": 4,
}  # fmt: skip
SHARED = {**EXPERTS, "common": {**EXPERTS["common"], "moe_shared_expert_intermediate_size": 16}}
BIASED = {**EXPERTS, "common": {**EXPERTS["common"], "add_bias_linear": True}}
GROUPED = {**SHARED, "common": {**SHARED["common"], "moe_grouped_gemm": True}}
PREDICTING = {**SHARED, "common": {**SHARED["common"], "mtp_num_layers": 1}}
LATENT = {
    **DENSE,
    "common": {
        **{k: v for k, v in SHARED["common"].items() if k not in ("num_query_groups", "kv_channels")},
        "num_layers": 4, "add_qkv_bias": False, "qk_layernorm": True, "q_lora_rank": 16, "kv_lora_rank": 12, "qk_head_dim": 8,
        "qk_pos_emb_head_dim": 4, "v_head_dim": 8, "moe_layer_freq": [0, 1, 1, 1], "mtp_num_layers": 1,
        "moe_router_enable_expert_bias": True, "moe_router_score_function": "sigmoid", "rope_type": "rope",
    },
    "experts": 4, "latent": True,
}  # fmt: skip


def config_of(model, tp=1, pp=1, vpp=1, cp=1, ep=1, etp=None, first=None, last=None, more=None, **_):
    common = dict(model["common"])
    if model.get("experts"):
        common |= {"num_moe_experts": model["experts"], "expert_model_parallel_size": ep, "expert_tensor_parallel_size": etp or tp}
    ungated = model.get("ungated", False)
    make = MLATransformerConfig if model.get("latent") else TransformerConfig
    return make(
        **common, gated_linear_unit=not ungated, activation_func=squared_relu if ungated else F.silu,
        bf16=True, params_dtype=torch.bfloat16, pipeline_dtype=torch.bfloat16,
        tensor_model_parallel_size=tp, pipeline_model_parallel_size=pp,
        virtual_pipeline_model_parallel_size=vpp if vpp > 1 else None, context_parallel_size=cp,
        num_layers_in_first_pipeline_stage=first, num_layers_in_last_pipeline_stage=last, **(more or {}),
        use_cpu_initialization=True, perform_initialization=False,
        persist_layer_norm=False, masked_softmax_fusion=False, bias_activation_fusion=False, bias_dropout_fusion=False,
        apply_rope_fusion=False, gradient_accumulation_fusion=False,
    )  # fmt: skip


def set_up(model, distributed, bucket=None, **degrees):
    """This rank's model chunks and their optimizer."""
    tp, pp, vpp, ep = (degrees.get(axis, 1) for axis in ("tp", "pp", "vpp", "ep"))
    parallel_state.initialize_model_parallel(
        tp, pp, vpp if vpp > 1 else None, context_parallel_size=degrees.get("cp", 1), expert_model_parallel_size=ep,
        expert_tensor_parallel_size=degrees.get("etp") or tp, create_gloo_process_groups=True,
    )  # fmt: skip
    tensor_parallel.model_parallel_cuda_manual_seed(1)
    config = config_of(model, **degrees)
    stage = parallel_state.get_pipeline_model_parallel_rank()
    chunks = []
    for v in range(vpp):
        at = {"vp_stage": v if vpp > 1 else None}
        spec = get_gpt_decoder_block_spec(config, use_transformer_engine=False, normalization=config.normalization, **at)
        ahead = spec
        if not spec.layer_specs:  # a chunk without layers: any layer will do for multi-token prediction
            ahead = get_gpt_layer_local_spec(
                config.num_moe_experts, config.moe_grouped_gemm, config.qk_layernorm, config.multi_latent_attention,
                normalization=config.normalization,
            )  # fmt: skip
        mtp = get_gpt_mtp_block_spec(config, ahead, use_transformer_engine=False, **at) if config.mtp_num_layers else None
        chunks.append(GPTModel(
            config=config, transformer_layer_spec=spec, vocab_size=padded(model, tp), max_sequence_length=model["positions"],
            parallel_output=True, position_embedding_type="rope", share_embeddings_and_output_weights=model.get("tied", False),
            pre_process=stage == 0 and v == 0, post_process=stage == pp - 1 and v == vpp - 1, mtp_block_spec=mtp, **at,
        ))  # fmt: skip
        precise = {name: buffer.clone() for name, buffer in chunks[-1].named_buffers() if buffer is not None}
        chunks[-1].to(torch.bfloat16)
        for name, buffer in chunks[-1].named_buffers():
            buffer.data = precise[name]
    settings = DistributedDataParallelConfig(
        use_distributed_optimizer=distributed, overlap_grad_reduce=bucket is not None, bucket_size=bucket, grad_reduce_in_fp32=True
    )
    wrapped = [DistributedDataParallel(config, settings, chunk, disable_bucketing=stage > 0 or i > 0) for i, chunk in enumerate(chunks)]
    options = OptimizerConfig(
        optimizer="adam", lr=1e-3, min_lr=1e-4, weight_decay=0.1, clip_grad=1.0, bf16=True, params_dtype=torch.bfloat16,
        use_distributed_optimizer=distributed,
    )  # fmt: skip
    optimizer = get_megatron_optimizer(options, wrapped)
    for one in optimizer.chained_optimizers:
        if not distributed:
            one.init_state_fn(one.optimizer, one.config)
    return chunks, wrapped, optimizer


def padded(model, tp):
    multiple = model["divisible"] * tp
    return -(-model["vocab"] // multiple) * multiple


def places_of(chunk):
    """For each tensor of a state dict, its part of a whole tensor, as (key, whole shape, box, own elements)."""
    metadata = {"dp_cp_group": parallel_state.get_data_parallel_group(with_context_parallel=True), "singleton_local_shards": False}
    places = {}
    for name, entry in chunk.sharded_state_dict(metadata=metadata).items():
        if not isinstance(entry, (ShardedTensor, ShardedTensorFactory)):
            continue
        own = torch.arange(entry.data.numel()).view(entry.data.shape)
        if isinstance(entry, ShardedTensorFactory):
            parts = list(nested_values([entry.build_fn(entry.key, own, entry.replica_id, None)]))
        else:
            parts = [replace(entry, data=own, dtype=own.dtype)]
        places[name] = []
        for part in parts:
            shape = (1,) * part.prepend_axis_num + tuple(part.data.shape)
            box = tuple(slice(begin, begin + size) for begin, size in zip(part.global_offset, shape))
            places[name].append((part.key, part.global_shape, box, part.data.reshape(shape)))
    return places


def value(model, what, shape, places):
    """A tensor of a rank, with values that follow from the whole tensor's key."""
    flat = torch.full([torch.Size(shape).numel()], float("nan"))
    for key, whole, box, own in places:
        whole, vocabulary = list(whole), "word_embeddings" in key or key.startswith("output_layer")
        if vocabulary:
            whole[0] = model["vocab"]
        seed = int.from_bytes(hashlib.sha256(f"{what} {key}".encode()).digest()[:7], "little")
        full = torch.randn(whole, generator=torch.Generator().manual_seed(seed)) * 0.05
        if vocabulary:
            full = F.pad(full, (0, 0, 0, box[0].stop)) if len(whole) == 2 else full
        flat[own.flatten()] = full[box].flatten()
    if flat.isnan().any():
        raise RuntimeError(f"{places[0][0]}: not all elements have a place")
    return flat.view(shape)


@torch.no_grad()
def fill(model, chunks, optimizer, distributed):
    places = [places_of(chunk) for chunk in chunks]
    names = {parameter: (i, name) for i, chunk in enumerate(chunks) for name, parameter in chunk.named_parameters()}

    def of(what, parameter):
        i, name = names[parameter]
        return value(model, what, parameter.shape, places[i][name])

    if distributed:
        for one in optimizer.chained_optimizers:
            if not one.is_stub_optimizer:
                one._init_optimizer_states_with_dummy_values()
    for parameter in names:
        parameter.data.copy_(of("weight", parameter))
    for i, chunk in enumerate(chunks):
        for name, buffer in chunk.named_buffers():
            if name in places[i]:
                buffer.data.copy_(value(model, "weight", buffer.shape, places[i][name]))
    for one in optimizer.chained_optimizers:
        if one.is_stub_optimizer:
            continue
        if distributed:
            masters = {parameter: None for parameter in one.model_param_gbuf_map}
        else:
            groups = zip(one.float16_groups, one.fp32_from_float16_groups)
            masters = {parameter: master for pair in groups for parameter, master in zip(*pair)}
        for parameter, master in masters.items():
            exact = parameter.detach().float()
            state = {what: of(what, parameter) for what in ("exp_avg", "exp_avg_sq")}
            state["exp_avg_sq"].abs_()
            state["param"] = exact + of("fraction", parameter) * 1e-3 * exact.abs()
            if distributed:
                own = one._get_model_param_range_map(parameter)["param"]
                one._set_main_param_and_optimizer_states(parameter, {k: v.flatten()[own.start : own.end] for k, v in state.items()})
                continue
            master.copy_(state["param"])
            for what in ("exp_avg", "exp_avg_sq"):
                one.optimizer.state[master][what].copy_(state[what])
        for group in one.optimizer.param_groups:
            group["step"] = 10


def args_of(model, degrees, distributed, bucket):
    """The arguments that Megatron-LM would have."""
    tp, pp, vpp, cp, ep = (degrees.get(axis, 1) for axis in ("tp", "pp", "vpp", "cp", "ep"))
    own = {name: item for name, item in model["common"].items() if name != "add_qkv_bias" or item}
    ungated = model.get("ungated", False)
    own |= {"moe_layer_freq": own.get("moe_layer_freq", 1), "mtp_num_layers": own.get("mtp_num_layers")}
    return argparse.Namespace(
        **own, tensor_model_parallel_size=tp, pipeline_model_parallel_size=pp, expert_model_parallel_size=ep,
        expert_tensor_parallel_size=degrees.get("etp") or tp, virtual_pipeline_model_parallel_size=vpp if vpp > 1 else None,
        context_parallel_size=cp, world_size=dist.get_world_size(), data_parallel_size=dist.get_world_size() // (tp * pp * cp),
        decoder_first_pipeline_num_layers=degrees.get("first"), decoder_last_pipeline_num_layers=degrees.get("last"),
        **({name: False for name in ACCOUNTED} | {"pipeline_model_parallel_layout": None} | (degrees.get("more") or {})),
        group_query_attention="num_query_groups" in own, swiglu=not ungated, squared_relu=ungated, position_embedding_type="rope",
        max_position_embeddings=model["positions"], multi_latent_attention=model.get("latent", False),
        untie_embeddings_and_output_weights=not model.get("tied", False), padded_vocab_size=padded(model, tp),
        vocab_size=model["vocab"], make_vocab_size_divisible_by=model["divisible"], num_experts=model.get("experts"),
        transformer_impl="local", use_distributed_optimizer=distributed, overlap_grad_reduce=bucket is not None,
        ddp_bucket_size=bucket, bf16=True, fp16=False, ckpt_format="torch_dist",
        **({"moe_grouped_gemm": False} if "moe_grouped_gemm" not in own else {}),
    )  # fmt: skip


def rank_directory(degrees):
    """The file name, as by get_checkpoint_name() of Megatron-LM."""
    name = f"mp_rank_{parallel_state.get_tensor_model_parallel_rank():02d}"
    if degrees.get("pp", 1) > 1:
        name += f"_{parallel_state.get_pipeline_model_parallel_rank():03d}"
    if degrees.get("ep", 1) > 1:
        name += f"_{parallel_state.get_expert_model_parallel_rank():03d}"
    return Path("iter_0000010", name)


def write(out, model, degrees, kinds, bucket):
    """The same state in OUT/KIND for each kind of torch_dist (None: with the plain optimizer) and, as "legacy", in rank
    files."""
    filesystem_async._results_queue = queue_of_rank()
    distributed = None not in kinds
    chunks, _, optimizer = set_up(model, distributed, bucket, **degrees)
    fill(model, chunks, optimizer, distributed)
    common = {"args": args_of(model, degrees, distributed, bucket), "checkpoint_version": 3.0, "iteration": 10}
    for kind in kinds:
        folder = Path(out, kind or "plain")
        ranks = folder / rank_directory(degrees)
        (ranks if kind == "legacy" else ranks.parent).mkdir(parents=True, exist_ok=True)
        (folder / "latest_checkpointed_iteration.txt").write_text("10")
        dist.barrier()
        if kind != "legacy":
            state, metadata = steps._state(chunks, optimizer, kind, False)
            dist_checkpointing.save(state | common, str(ranks.parent), content_metadata=metadata)
            continue
        common["args"].ckpt_format = "torch"
        if distributed:
            optimizer.save_parameter_state(str(ranks / "distrib_optim.pt"))
        if parallel_state.get_expert_data_parallel_rank() == 0:
            parts = {"model" if len(chunks) == 1 else f"model{i}": chunk.state_dict_for_save_checkpoint() for i, chunk in enumerate(chunks)}
            torch.save(common | parts | {"optimizer": optimizer.state_dict()}, ranks / "model_optim_rng.pt")


def held_by(chunks, optimizer):
    """Everything from which a run continues."""
    held = {"model": [], "groups": []}
    for chunk in chunks:
        persistent = [(name, item) for name, item in chunk.state_dict().items() if torch.is_tensor(item)]
        held["model"].append(precision.copy_of(dict(persistent)))
    for one in optimizer.chained_optimizers:
        for group in [] if one.is_stub_optimizer else one.optimizer.param_groups:
            own = {key: item for key, item in group.items() if key != "params"}
            own |= {i: {"master": p, **one.optimizer.state[p]} for i, p in enumerate(group["params"])}
            held["groups"].append(precision.copy_of(own))
    return held


def _load_dist(directory, chunks, optimizer):
    kind = (dist_checkpointing.load_content_metadata(directory) or {}).get("distrib_optim_sharding_type")
    state, _ = steps._state(chunks, optimizer, kind, True)
    steps._without_extra(state)
    return dist_checkpointing.load(state, directory, strict=StrictHandling.ASSUME_OK_UNEXPECTED)


def load(folder, model, degrees, distributed, bucket, form):
    """Megatron's state after loading `folder`; with form "filled", its state without loading."""
    chunks, _, optimizer = set_up(model, distributed, bucket, **degrees)
    if form == "filled":
        fill(model, chunks, optimizer, distributed)
        return held_by(chunks, optimizer)
    for one in optimizer.chained_optimizers if distributed else []:
        if not one.is_stub_optimizer:
            one._init_optimizer_states_with_dummy_values()
    for chunk in chunks:
        for tensor in (*chunk.parameters(), *chunk.buffers()):
            if tensor.is_floating_point():
                tensor.data.fill_(float("nan"))
    if form == "legacy":
        ranks = Path(folder) / rank_directory(degrees)
        loaded = torch.load(ranks / "model_optim_rng.pt", weights_only=False)
    else:
        loaded = _load_dist(str(Path(folder, "iter_0000010")), chunks, optimizer)
    for i, chunk in enumerate(chunks):
        lacking = chunk.load_state_dict(loaded["model" if len(chunks) == 1 else f"model{i}"], strict=form == "legacy")
        lacking = [name for name in lacking.missing_keys if not name.endswith("_extra_state")]
        if lacking:
            raise RuntimeError(f"not loaded: {lacking}")
    optimizer.load_state_dict(loaded["optimizer"])
    if form == "legacy" and distributed:
        optimizer.load_parameter_state(str(ranks / "distrib_optim.pt"))
    return held_by(chunks, optimizer)


def text_of(degrees):
    """The layout in tpx's notation."""
    axes = ("tp", "pp", "dp", "cp", "ep", "etp", "vpp", "first", "last", "stages")
    return ",".join(f"{axis}={degrees[axis]}" for axis in axes if axis in degrees) or "tp=1"


def ranks_of(degrees):
    return degrees.get("tp", 1) * degrees.get("pp", 1) * degrees.get("cp", 1) * degrees.get("dp", 1)


# The layouts in which Megatron writes each model; a checkpoint of each layout is converted to the next one.
ACCOUNTED = {"account_for_embedding_in_pipeline_split": True, "account_for_loss_in_pipeline_split": True}
MODELS = {
    "dense": (DENSE, [
        {"tp": 2, "cp": 2}, {"pp": 2, "vpp": 2, "first": 2}, {"pp": 3, "first": 1, "last": 1},
        {"pp": 2, "vpp": 2, "stages": "[1,2,2,1]", "more": ACCOUNTED},
        {"pp": 2, "vpp": 2, "stages": "[0,2,3,1]", "more": {"pipeline_model_parallel_layout": "E|tt|t*3|tL"}},
    ]),
    "tied": (TIED, [{"pp": 2, "vpp": 3}, {"pp": 2, "dp": 2}]),
    "squared ReLU with biases": (UNGATED, [{"pp": 2, "dp": 2, "first": 1}, {"tp": 2, "dp": 2}]),
    "experts": (SHARED, [
        {}, {"dp": 2, "ep": 2}, {"dp": 4, "ep": 2, "etp": 2}, {"tp": 2, "ep": 2, "etp": 1},
    ]),
    "experts with biases": (BIASED, [{}, {"tp": 2, "ep": 2, "etp": 1}]),
    "grouped experts": (GROUPED, [{"pp": 2, "dp": 2, "ep": 2}, {"tp": 2, "dp": 2, "ep": 2}]),
    "multi-token prediction": (PREDICTING, [{}, {"tp": 2, "ep": 2, "etp": 1}]),
    "latent attention": (LATENT, [
        {}, {"tp": 2, "dp": 2, "ep": 2}, {"pp": 2, "vpp": 2}, {"pp": 2, "dp": 2, "ep": 2, "first": 1},  # no experts on stage 0
        {"pp": 3, "stages": "[3,1,0]", "more": {"pipeline_model_parallel_layout": "Ettt|tm|L"}},
    ]),
}  # fmt: skip


def kinds_of(model, degrees):
    """What Megatron writes: with the distributed optimizer, with the plain one. Whole tensors of an optimizer whose first
    bucket is an embedding of two stages are wrong; two ranks would write one rank file where etp > tp."""
    shared = degrees.get("pp", 1) > 1 and model.get("tied", False)
    legacy = ["legacy"] if degrees.get("etp", 0) <= degrees.get("tp", 1) else []
    whole = [] if shared else ["fully_reshardable"]
    return {"distributed": ["dp_reshardable", *whole, *legacy], "plain": [None, *legacy]}


def same_files(ours, theirs):
    faults = precision.same_files(ours, theirs)
    for path in Path(theirs).rglob("model_optim_rng.pt"):
        told, written = (vars(torch.load(folder / path.relative_to(theirs), weights_only=False)["args"]) for folder in (ours, theirs))
        own = set(ACCOUNTED) | {"pipeline_model_parallel_layout", "ckpt_format"}  # stages in words are stages in numbers
        faults += [f"{path.name}: args.{key} is {told.get(key)!r}, not {written[key]!r}"
                   for key in written.keys() - own if key not in told or told[key] != written[key]]  # fmt: skip
    return faults


def taken(tpx, source, folder, model, degrees, optimizer, form, filled):
    """Faults of tpx's conversion of `source` to `degrees`, compared with Megatron's checkpoint in `folder`."""
    distributed = optimizer == "distributed"
    with tempfile.TemporaryDirectory() as scratch:
        out = Path(scratch, "out")
        more = ["--set", f"use_distributed_optimizer={str(distributed).lower()}"]
        words = (degrees.get("more") or {}).get("pipeline_model_parallel_layout")
        more += ["--set", f"pipeline_model_parallel_layout={words}"] if words else []
        status, said = steps._run(tpx, "reshard", source, out, "--to", text_of(degrees), "--format",
                                  "megatron" if form == "legacy" else "torch_dist", "--quiet", *more)  # fmt: skip
        if status:
            return [said]
        faults = same_files(out, folder / optimizer / "legacy") if form == "legacy" else []
        held = on_ranks(ranks_of(degrees), load, str(out), model, degrees, distributed, None, form)
        faults += [f"rank {rank}: {line}" for rank, own in enumerate(held) for line in differences(own, filled[rank])]
        tensor = next(iter(held[0]["model"][0].values())).flatten()
        tensor[0] += 1
        if not faults and not differences(held[0], filled[0]):
            faults.append("another value is not seen")
        return faults


def buckets_chosen(tpx):
    """Rank files for a given bucket size, with sizes that are not multiples of 64: as Megatron writes and loads
    them."""
    faults = []
    with tempfile.TemporaryDirectory() as scratch:
        degrees, bucket = {"tp": 2, "dp": 2}, 1160  # the last norm ends the first one
        on_ranks(1, write, Path(scratch, "one"), DENSE, {}, ["dp_reshardable"], None)
        on_ranks(4, write, Path(scratch, "many"), DENSE, degrees, ["legacy"], bucket)
        filled = on_ranks(4, load, None, DENSE, degrees, True, bucket, "filled")
        for chosen in (True, False):
            out = Path(scratch, f"out {chosen}")
            more = ["--set", f"ddp_bucket_size={bucket}", "--set", "overlap_grad_reduce=true"] if chosen else []
            status, said = steps._run(tpx, "reshard", Path(scratch, "one/dp_reshardable"), out, "--to", text_of(degrees),
                                      "--format", "megatron", "--quiet", *more)  # fmt: skip
            if status:
                return [said]
            differs = precision.same_files(out, Path(scratch, "many/legacy"))
            if not chosen:
                faults += [] if differs else ["the size of buckets makes no difference"]
                continue
            held = on_ranks(4, load, str(out), DENSE, degrees, True, bucket, "legacy")
            faults += differs + [line for own, right in zip(held, filled) for line in differences(own, right)]
    return faults


def main(tpx):
    outcomes = Outcomes()
    report = outcomes.report

    report("rank files for other buckets", buckets_chosen(tpx))
    for name, (model, layouts) in MODELS.items():
        with tempfile.TemporaryDirectory() as scratch:
            written = []
            for number, degrees in enumerate(layouts):
                for optimizer, kinds in kinds_of(model, degrees).items():
                    folder = Path(scratch, str(number), optimizer)
                    on_ranks(ranks_of(degrees), write, folder, model, degrees, kinds, None)
                    written += [(number, folder / (kind or "plain")) for kind in kinds]
            faults = []
            for number, checkpoint in written[1:]:
                for command in (("verify", "--ignore", "rng", written[0][1], checkpoint), ("verify", "--masters", checkpoint)):
                    status, said = steps._run(tpx, *command)
                    faults += [f"{checkpoint}: {said}"] if status or "not compared" in said else []
            report(f"{name}: {len(written)} checkpoints under {len(layouts)} layouts are one state", faults)
            for number, degrees in enumerate(layouts):
                others = [checkpoint for other, checkpoint in written if other == (number - 1) % len(layouts)]
                # Two of the four ways in turn: rank files of one optimizer, torch_dist of the other.
                ways = [("distributed", "legacy"), ("plain", "dist")] if number % 2 == 0 else [("plain", "legacy"), ("distributed", "dist")]
                if "legacy" not in kinds_of(model, degrees)["plain"]:
                    ways = [("distributed", "dist"), ("plain", "dist")]
                for turn, (optimizer, form) in enumerate(ways):
                    source = others[(turn + number) % len(others)]
                    filled = on_ranks(ranks_of(degrees), load, None, model, degrees, optimizer == "distributed", None, "filled")
                    faults = taken(tpx, source, Path(scratch, str(number)), model, degrees, optimizer, form, filled)
                    report(f"{name}: {source.relative_to(scratch)} to {text_of(degrees)}, {form}, {optimizer}", faults)
    return outcomes.status()
