# SPDX-License-Identifier: Apache-2.0
"""Builds Megatron-core's GPTModel from the args that a checkpoint contains, the way Megatron's training script does from
args on its command line, and computes logits."""
import contextlib
import dataclasses
import os
from types import SimpleNamespace

import torch
import torch.distributed as dist
import torch.nn.functional as F

import load_megatron  # noqa: F401 (its stand-ins for a GPU come first)
import megatron.core.tensor_parallel.random as random_states
from megatron.core import parallel_state
from megatron.core.fusions.fused_bias_geglu import quick_gelu
from megatron.core.models.gpt import GPTModel
from megatron.core.models.gpt import experimental_attention_variant_module_specs as variants
from megatron.core.models.gpt import gpt_layer_specs as specs
from megatron.core.ssm import gated_delta_net
from megatron.core.transformer.transformer_config import MLATransformerConfig, TransformerConfig

# Defaults of Megatron's command line for settings that the checkpoint lacks, if TransformerConfig has another default
# or none.
DEFAULTS = {
    "transformer_impl": "transformer_engine", "multi_latent_attention": False, "num_experts": None, "swiglu": False,
    "squared_relu": False, "quick_geglu": False, "group_query_attention": False, "rope_type": None, "qk_l2_norm": False,
    "position_embedding_type": "learned_absolute", "rotary_percent": 1.0, "rotary_base": 10000, "use_rope_scaling": False,
    "untie_embeddings_and_output_weights": False, "mtp_num_layers": None, "moe_layer_freq": 1, "rotary_scaling_factor": 1.0,
    "moe_grouped_gemm": False, "normalization": "LayerNorm", "max_position_embeddings": None, "qk_layernorm": False,
    "decoder_first_pipeline_num_layers": None, "decoder_last_pipeline_num_layers": None, "mscale_all_dim": 0.0,
    "bias_gelu_fusion": True, "bias_swiglu_fusion": True, "add_bias_linear": True, "apply_layernorm_1p": False,
    "experimental_attention_variant": None,
}  # fmt: skip

# Settings about where the model runs, not what it computes.
MACHINE = {
    "use_cpu_initialization": True, "perform_initialization": False, "persist_layer_norm": False, "masked_softmax_fusion": False,
    "bias_dropout_fusion": False, "apply_rope_fusion": False, "moe_token_dispatcher_type": "alltoall",
    "gradient_accumulation_fusion": False, "bf16": False, "fp16": False, "params_dtype": torch.float32, "pipeline_dtype": torch.float32,
}  # fmt: skip
LAYOUT = ("tensor_model_parallel_size", "pipeline_model_parallel_size", "virtual_pipeline_model_parallel_size",
          "context_parallel_size", "expert_model_parallel_size", "expert_tensor_parallel_size")  # fmt: skip

# The part of flash-linear-attention, which needs a GPU, that gated delta nets use: the L2 norm. Megatron-core has its
# own fallback for the rest.
os.environ["NVTE_ALLOW_NONDETERMINISTIC_ALGO"] = "0"
torch._dynamo.config.disable = True  # it looks for a GPU
gated_delta_net.HAVE_FLA = True
gated_delta_net.l2norm = lambda x, dim=-1, eps=1e-6: x * torch.rsqrt((x * x).sum(dim, keepdim=True) + eps)

random_states.CudaRNGStatesTracker.fork = lambda self, *_, **__: contextlib.nullcontext()


def with_defaults(args):
    return SimpleNamespace(**{**DEFAULTS, **vars(args)})


def transformer_config(args, **layout):
    """Every field for which args have a value, and those with another name in args."""
    kind = MLATransformerConfig if args.multi_latent_attention else TransformerConfig
    given = {field.name: getattr(args, field.name) for field in dataclasses.fields(kind) if hasattr(args, field.name)}
    for name in LAYOUT:
        given.pop(name, None)
    given["num_moe_experts"] = args.num_experts
    given["num_query_groups"] = args.num_query_groups if args.group_query_attention else None
    given["num_layers_in_first_pipeline_stage"] = args.decoder_first_pipeline_num_layers
    given["num_layers_in_last_pipeline_stage"] = args.decoder_last_pipeline_num_layers
    given["layernorm_zero_centered_gamma"] = args.apply_layernorm_1p or given.get("layernorm_zero_centered_gamma", False)
    # Fused with the bias, GELU is computed by tanh; without, by erf.
    given["bias_activation_fusion"] = args.bias_gelu_fusion and args.add_bias_linear
    if args.swiglu:
        given.update(activation_func=F.silu, gated_linear_unit=True, bias_activation_fusion=args.bias_swiglu_fusion)
    if args.quick_geglu:
        given.update(activation_func=quick_gelu, gated_linear_unit=True, bias_activation_fusion=False)
    if args.squared_relu:
        given["activation_func"] = lambda x: F.relu(x) ** 2
    if args.rope_type is None:
        given.pop("rope_type", None)
    elif not args.multi_latent_attention and args.rope_type != "rope":
        raise ValueError(f"Megatron refuses rope_type {args.rope_type} without latent attention")
    given["deterministic_mode"] = args.experimental_attention_variant == "gated_delta_net"
    config = kind(**{**given, **MACHINE, **layout})
    for name, value in vars(args).items():
        if name.startswith("yarn_"):  # not fields, but the model reads them from the configuration
            setattr(config, name, value)
    return config


def _layer_spec(args, config):
    """The modules of the layers: TransformerEngine's or Megatron's own, depending on args."""
    engine = args.transformer_impl == "transformer_engine"
    if args.experimental_attention_variant:
        return variants.get_transformer_block_with_experimental_attention_variant_spec(config)
    if args.num_experts:
        return specs.get_gpt_decoder_block_spec(config, engine, normalization=args.normalization, qk_l2_norm=args.qk_l2_norm)
    given = (args.num_experts, args.moe_grouped_gemm, args.qk_layernorm, args.multi_latent_attention)
    if engine:
        return specs.get_gpt_layer_with_transformer_engine_spec(*given, qk_l2_norm=args.qk_l2_norm)
    return specs.get_gpt_layer_local_spec(*given, normalization=args.normalization)


def _prediction_spec(args, config):
    if args.mtp_num_layers is None:
        return None
    engine = args.transformer_impl == "transformer_engine"
    layers = specs.get_gpt_decoder_layer_specs(config, engine, normalization=args.normalization, qk_l2_norm=args.qk_l2_norm)
    return specs.get_gpt_mtp_block_spec(config, layers[-1], use_transformer_engine=engine)


def build(args, **layout):
    """This rank's part of the model that `args` describe; every parameter is NaN until it is loaded."""
    args = with_defaults(args)
    config = transformer_config(args, **layout)
    stage, stages = parallel_state.get_pipeline_model_parallel_rank(), parallel_state.get_pipeline_model_parallel_world_size()
    last = stage == stages - 1
    model = GPTModel(
        config=config, transformer_layer_spec=_layer_spec(args, config), vocab_size=args.padded_vocab_size,
        max_sequence_length=args.max_position_embeddings, pre_process=stage == 0, post_process=last, parallel_output=True,
        share_embeddings_and_output_weights=not args.untie_embeddings_and_output_weights,
        position_embedding_type=args.position_embedding_type, rotary_percent=args.rotary_percent, rotary_base=args.rotary_base,
        rope_scaling=args.use_rope_scaling, mtp_block_spec=_prediction_spec(args, config) if last else None,
    )  # fmt: skip
    for value in [*model.parameters(), *(b for name, b in model.named_buffers() if name.endswith("expert_bias"))]:
        value.data.fill_(float("nan"))
    return model.eval()


def logits(model, ids):
    """Logits for every token, over the padded vocabulary; None on ranks outside the last pipeline stage."""
    length = ids.shape[1]
    mask = torch.ones(1, 1, length, length).triu(1).bool()
    stage, stages = parallel_state.get_pipeline_model_parallel_rank(), parallel_state.get_pipeline_model_parallel_world_size()
    tensor_ranks = parallel_state.get_tensor_model_parallel_world_size()
    model.mtp_process, model.config.mtp_num_layers = False, None  # they need labels, and are only for the loss
    if stage > 0:
        hidden = torch.empty(length, ids.shape[0], model.config.hidden_size)
        dist.recv(hidden, parallel_state.get_pipeline_model_parallel_prev_rank())
        model.set_input_tensor(hidden)
    with torch.no_grad():
        out = model(ids, torch.arange(length)[None].expand(ids.shape[0], -1), mask)
    if stage < stages - 1:
        return dist.send(out.contiguous(), parallel_state.get_pipeline_model_parallel_next_rank())
    shares = [torch.empty_like(out) for _ in range(tensor_ranks)]
    dist.all_gather(shares, out.contiguous(), group=parallel_state.get_tensor_model_parallel_group())
    return torch.cat(shares, -1)
