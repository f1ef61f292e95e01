# SPDX-License-Identifier: Apache-2.0
"""Loads a torch_dist checkpoint into Megatron-core's GPTModel, on CPU ranks under any tensor and pipeline degree."""
import os
import sys
import types

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch.overrides import TorchFunctionMode

import uncompiled  # noqa: F401
from digests import differences, entry
from ranks import on_ranks


class _Nothing:
    """A stand-in for streams and events: accepts any call."""

    def __init__(self, *_, **__):
        pass

    def __enter__(self):
        return self

    def __exit__(self, *_):
        return False

    def __getattr__(self, _):
        return lambda *_, **__: self


class _OnCpu(TorchFunctionMode):
    """Creates tensors for "cuda" on the CPU."""

    def __torch_function__(self, function, _types, args=(), kwargs=None):
        kwargs = dict(kwargs or {})
        if "cuda" in str(kwargs.get("device", "")):
            kwargs["device"] = torch.device("cpu")
        return function(*args, **kwargs)


def _without_gpu():
    """Megatron-core uses a GPU in many places where a checkpoint needs none; these stand-ins replace it."""
    kernels = types.ModuleType("megatron.core.transformer.custom_layers.batch_invariant_kernels")
    for name in ("enable_batch_invariant_mode", "is_batch_invariant_mode_enabled", "disable_batch_invariant_mode"):
        setattr(kernels, name, lambda *_, **__: False)
    sys.modules[kernels.__name__] = kernels  # needs Triton

    cuda = torch.cuda
    cuda.Stream = cuda.Event = cuda.stream = cuda.device = _Nothing
    cuda.current_stream = cuda.default_stream = lambda *_, **__: _Nothing()
    cuda.current_device = lambda: torch.device("cpu")
    cuda.device_count = lambda: 1
    cuda.get_rng_state = lambda *_, **__: torch.zeros(16, dtype=torch.uint8)
    for name in ("set_device", "synchronize", "empty_cache", "manual_seed", "set_rng_state"):
        setattr(cuda, name, lambda *_, **__: None)
    torch.Tensor.cuda = lambda self, *_, **__: self
    torch.nn.Module.cuda = lambda self, *_, **__: self
    _OnCpu().__enter__()


_without_gpu()
from megatron.core import dist_checkpointing, parallel_state, tensor_parallel  # noqa: E402
from megatron.core.dist_checkpointing.dict_utils import nested_values  # noqa: E402
from megatron.core.dist_checkpointing.mapping import ShardedTensor, apply_factories  # noqa: E402
from megatron.core.dist_checkpointing.validation import StrictHandling  # noqa: E402
from megatron.core.models.gpt import GPTModel  # noqa: E402
from megatron.core.models.gpt.gpt_layer_specs import get_gpt_layer_local_spec  # noqa: E402
from megatron.core.transformer import dot_product_attention  # noqa: E402
from megatron.core.transformer.transformer_config import TransformerConfig  # noqa: E402

_attention = dot_product_attention.DotProductAttention.__init__
dot_product_attention.DotProductAttention.__init__ = (
    lambda self, *args, k_channels=None, v_channels=None, **kwargs: _attention(self, *args, **kwargs)
)  # the layer passes channels that the CPU core does not know


def _experts(model, ep, etp):
    if not model.get("experts"):
        return {}
    return {
        "num_moe_experts": model["experts"], "moe_ffn_hidden_size": model["moe_ffn"], "moe_router_topk": model["topk"],
        "moe_layer_freq": model["moe_layer_freq"], "expert_model_parallel_size": ep, "expert_tensor_parallel_size": etp,
        "moe_token_dispatcher_type": "alltoall",
    }  # fmt: skip


def _config(model, tp, pp, vpp, first, last, ep, etp):
    dtype = {"bf16": torch.bfloat16, "f16": torch.float16, "f32": torch.float32}[model["dtype"]]
    return TransformerConfig(
        **_experts(model, ep, etp),
        num_layers=model["layers"], hidden_size=model["hidden"], ffn_hidden_size=model["ffn"],
        num_attention_heads=model["heads"], num_query_groups=model["kv_heads"], kv_channels=model["kv_channels"],
        normalization=model["norm"], add_bias_linear=model["bias"], add_qkv_bias=model["qkv_bias"],
        qk_layernorm=model["qk_layernorm"], gated_linear_unit=model["swiglu"],
        activation_func=F.silu if model["swiglu"] else F.gelu,
        bf16=dtype is torch.bfloat16, fp16=dtype is torch.float16, params_dtype=dtype, pipeline_dtype=dtype,
        tensor_model_parallel_size=tp, pipeline_model_parallel_size=pp,
        virtual_pipeline_model_parallel_size=vpp if vpp > 1 else None,
        num_layers_in_first_pipeline_stage=first, num_layers_in_last_pipeline_stage=last,
        use_cpu_initialization=True, perform_initialization=False, persist_layer_norm=False,
        masked_softmax_fusion=False, bias_activation_fusion=False, bias_dropout_fusion=False, apply_rope_fusion=False,
        gradient_accumulation_fusion=False,
    )  # fmt: skip


def _padded(model, tp):
    multiple = model["make_vocab_size_divisible_by"] * tp
    return -(-model["vocab"] // multiple) * multiple


def _chunks(model, tp, pp, vpp, first, last, ep, etp):
    """This rank's parts of the model, one for each virtual pipeline stage, every parameter NaN."""
    config = _config(model, tp, pp, vpp, first, last, ep, etp)
    spec = get_gpt_layer_local_spec(
        num_experts=model.get("experts"), moe_grouped_gemm=False, qk_layernorm=model["qk_layernorm"], normalization=model["norm"]
    )
    stage = parallel_state.get_pipeline_model_parallel_rank()
    chunks = []
    for v in range(vpp):
        chunk = GPTModel(
            config=config,
            transformer_layer_spec=spec,
            vocab_size=_padded(model, tp), max_sequence_length=model["max_position"], parallel_output=True,
            position_embedding_type=model["position"], share_embeddings_and_output_weights=model["tied"],
            pre_process=stage == 0 and v == 0, post_process=stage == pp - 1 and v == vpp - 1,
            vp_stage=v if vpp > 1 else None,
        )  # fmt: skip
        chunk.to(config.params_dtype)
        for parameter in chunk.parameters():
            parameter.data.fill_(float("nan"))
        chunks.append(chunk)
    return chunks


def _sharded(chunks):
    metadata = {"dp_cp_group": parallel_state.get_data_parallel_group(with_context_parallel=True)}
    state = {f"model{i}": chunk.sharded_state_dict(metadata=metadata) for i, chunk in enumerate(chunks)}
    for part in state.values():
        for name in [name for name in part if name.endswith("_extra_state")]:
            del part[name]
    return state


def _on_rank(directory, model, tp, pp, vpp, first, last, ep, etp):
    """The pieces that this rank holds after loading, as (key, global shape, offset, values), and all other loaded
    values."""
    parallel_state.initialize_model_parallel(
        tp, pp, vpp if vpp > 1 else None, expert_model_parallel_size=ep, expert_tensor_parallel_size=etp
    )
    tensor_parallel.model_parallel_cuda_manual_seed(1)
    chunks = _chunks(model, tp, pp, vpp, first, last, ep, etp)
    loaded = dist_checkpointing.load(_sharded(chunks), directory, strict=StrictHandling.ASSUME_OK_UNEXPECTED)
    for i, chunk in enumerate(chunks):
        kept = chunk.load_state_dict(loaded[f"model{i}"], strict=False)
        lacking = [name for name in kept.missing_keys if not name.endswith("_extra_state")]
        if lacking or kept.unexpected_keys:
            raise RuntimeError(f"Error: model{i} lacks {lacking}, does not know {kept.unexpected_keys}")
    state = _sharded(chunks)
    apply_factories(state)
    pieces = []
    for piece in nested_values(state):
        if isinstance(piece, ShardedTensor):
            values = piece.data.detach().contiguous()
            shape = (1,) * piece.prepend_axis_num + tuple(values.shape)
            pieces.append((piece.key, piece.global_shape, piece.global_offset, values.reshape(shape).clone()))
    return pieces, {name: value for name, value in loaded.items() if not name.startswith("model")}


def _assemble(pieces, faults):
    """Assembles whole tensors. A box that two ranks hold must be the same on both, and all boxes must cover the
    tensor."""
    whole, covered = {}, {}
    for key, shape, offset, values in pieces:
        if key not in whole:
            whole[key] = torch.zeros(shape, dtype=values.dtype)
            covered[key] = torch.zeros(shape, dtype=torch.bool)
        values = values[tuple(slice(0, size - begin) for size, begin in zip(shape, offset))]
        box = tuple(slice(begin, begin + size) for begin, size in zip(offset, values.shape))
        if covered[key][box].all() and not torch.equal(whole[key][box], values):
            faults.append(f"two ranks differ: {key}")
        whole[key][box] = values
        covered[key][box] = True
    faults += [f"not covered by the ranks: {key}" for key in whole if not covered[key].all()]
    return whole


def iteration_directory(directory):
    """The directory in the tracker file, or `directory` itself."""
    tracker = f"{directory}/latest_checkpointed_iteration.txt"
    if not os.path.exists(tracker):
        return directory
    with open(tracker) as file:
        return f"{directory}/iter_{int(file.read()):07d}"


def check(directory, digests, tp=1, pp=1, vpp=1, first=None, last=None, dp=1, ep=1, etp=None):
    """Faults when Megatron-core loads `directory` with these degrees, without vocabulary padding."""
    faults = []
    directory, model = iteration_directory(directory), digests["model"]
    results = on_ranks(tp * pp * dp, _on_rank, directory, model, tp, pp, vpp, first, last, ep, etp or tp)
    whole = _assemble([piece for pieces, _ in results for piece in pieces], faults)
    expected = dict(digests["tensors"])
    for name, unpadded in digests.get("tensors_vocab_trimmed", {}).items():
        expected[name] = unpadded
        if name in whole:
            whole[name] = whole[name][: unpadded["shape"][0]]
    return faults + differences({name: entry(tensor) for name, tensor in whole.items()}, expected)


def common_state(directory):
    """The state that is not sharded: iteration, args, and so on."""
    return dist_checkpointing.load_common_state_dict(iteration_directory(directory))
