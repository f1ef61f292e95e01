# SPDX-License-Identifier: Apache-2.0
"""A stand-in for TransformerEngine on the CPU: the modules that Megatron-core's layers are made of, with the parameters
that TransformerEngine's have under the same names, computed by PyTorch. install() must run before megatron.core is imported;
Megatron-core's own subclasses of these modules then decide names, sharding and everything else, as on a GPU."""
import importlib.machinery
import sys
import types

import torch
import torch.distributed as dist
import torch.nn.functional as F


class _Module(torch.nn.Module):
    """The common part of TransformerEngine's modules since version 2: an extra state in the state dict."""

    def get_extra_state(self):
        return torch.empty(0, dtype=torch.uint8)

    def set_extra_state(self, state):
        pass

    def init_fp8_metadata(self, num_gemms=1):
        pass


def _parameter(*shape, dtype):
    return torch.nn.Parameter(torch.zeros(*shape, dtype=dtype))


class _Norm(_Module):
    """A norm over the last axis; RMSNorm has no bias."""

    def __init__(self, hidden_size, eps, params_dtype, zero_centered_gamma=False, rms=False, **_):
        super().__init__()
        self.eps, self.rms, self.zero_centered = eps, rms, zero_centered_gamma
        self.weight = _parameter(hidden_size, dtype=params_dtype)
        if not rms:
            self.bias = _parameter(hidden_size, dtype=params_dtype)

    def forward(self, x):
        return _normalized(x, self.weight, None if self.rms else self.bias, self.eps, self.rms, self.zero_centered)


def _normalized(x, weight, bias, eps, rms, zero_centered):
    weight = weight + 1 if zero_centered else weight
    if rms:
        return F.rms_norm(x, weight.shape, weight, eps)
    return F.layer_norm(x, weight.shape, weight, bias, eps)


class _LayerNorm(_Norm):
    pass


class _RMSNorm(_Norm):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, rms=True, **kwargs)


class _Linear(_Module):
    """A linear layer, split over tensor parallelism by rows or columns or not at all."""

    def __init__(self, in_features, out_features, tp_group=None, tp_size=1, bias=True, return_bias=False, parallel_mode=None,
                 params_dtype=torch.float32, **_):  # fmt: skip
        super().__init__()
        rows = out_features // tp_size if parallel_mode == "column" else out_features
        columns = in_features // tp_size if parallel_mode == "row" else in_features
        self.in_features, self.out_features = columns, rows
        self.tp_group, self.tp_size, self.parallel_mode = tp_group, tp_size, parallel_mode
        self.return_bias, self.use_bias = return_bias, bias
        self.weight = _parameter(rows, columns, dtype=params_dtype)
        if bias:
            self.bias = _parameter(rows, dtype=params_dtype)

    def forward(self, x, is_first_microbatch=None):
        out = F.linear(x, self.weight)
        if self.parallel_mode == "row" and self.tp_size > 1:
            dist.all_reduce(out, group=self.tp_group)
        if self.return_bias:
            return out, self.bias
        return out + self.bias if self.use_bias else out


class _LayerNormLinear(_Linear):
    """A norm and a linear layer as one module."""

    def __init__(self, in_features, out_features, eps=1e-5, normalization="LayerNorm", zero_centered_gamma=False,
                 params_dtype=torch.float32, **others):  # fmt: skip
        super().__init__(in_features, out_features, params_dtype=params_dtype, **others)
        self.eps, self.rms, self.zero_centered = eps, normalization == "RMSNorm", zero_centered_gamma
        self.layer_norm_weight = _parameter(in_features, dtype=params_dtype)
        if not self.rms:
            self.layer_norm_bias = _parameter(in_features, dtype=params_dtype)

    def forward(self, x, is_first_microbatch=None):
        bias = None if self.rms else self.layer_norm_bias
        return super().forward(_normalized(x, self.layer_norm_weight, bias, self.eps, self.rms, self.zero_centered))


class _GroupedLinear(_Module):
    """One linear layer for each local expert."""

    def __init__(self, num_gemms, in_features, out_features, bias=True, return_bias=False, parallel_mode=None, tp_size=1,
                 params_dtype=torch.float32, **_):  # fmt: skip
        super().__init__()
        self.num_gemms, self.use_bias, self.return_bias = num_gemms, bias, return_bias
        rows = out_features // tp_size if parallel_mode == "column" else out_features
        columns = in_features // tp_size if parallel_mode == "row" else in_features
        for i in range(num_gemms):
            self.register_parameter(f"weight{i}", _parameter(rows, columns, dtype=params_dtype))
            if bias:
                self.register_parameter(f"bias{i}", _parameter(rows, dtype=params_dtype))

    def forward(self, x, m_splits, is_first_microbatch=None):
        parts = torch.split(x, m_splits)
        out = torch.cat([F.linear(part, getattr(self, f"weight{i}")) for i, part in enumerate(parts)])
        return (out, [getattr(self, f"bias{i}") for i in range(self.num_gemms)]) if self.return_bias else out


class _DotProductAttention(_Module):
    """Causal attention over [sequence, batch, head, channel], grouped queries and sliding windows included."""

    def __init__(self, num_attention_heads, kv_channels, num_gqa_groups=None, softmax_scale=None, window_size=None,
                 softmax_type="vanilla", tp_size=1, **_):  # fmt: skip
        super().__init__()
        if softmax_type == "learnable":
            self.softmax_offset = _parameter(num_attention_heads // tp_size, dtype=torch.float32)
        channels = kv_channels[0] if isinstance(kv_channels, tuple) else kv_channels
        self.scale = channels**-0.5 if softmax_scale is None else softmax_scale
        self.window = window_size

    def forward(self, query, key, value, mask=None, attn_mask_type="causal", **_):
        share = query.shape[2] // key.shape[2]
        query, key, value = (t.permute(1, 2, 0, 3) for t in (query, key, value))
        key, value = key.repeat_interleave(share, 1), value.repeat_interleave(share, 1)
        scores = query @ key.transpose(-1, -2) * self.scale
        distance = torch.arange(scores.shape[-2])[:, None] - torch.arange(scores.shape[-1])[None]
        allowed = distance >= 0
        if self.window is not None and self.window[0] >= 0:
            allowed &= distance <= self.window[0]
        scores = scores.masked_fill(~allowed, float("-inf"))
        if hasattr(self, "softmax_offset"):  # a separate score for attending to nothing
            nothing = self.softmax_offset.reshape(1, -1, 1, 1).expand(*scores.shape[:-1], 1)
            out = torch.cat([scores, nothing], -1).softmax(-1)[..., :-1] @ value
        else:
            out = scores.softmax(-1) @ value
        return out.permute(2, 0, 1, 3).flatten(2)


class _Class:
    """A placeholder class for names that are imported but never used."""


class _Names:
    """A namespace of such placeholder classes."""

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return type(name, (), {})


def _module(name, **content):
    module = types.ModuleType(name)
    module.__spec__ = importlib.machinery.ModuleSpec(name, None)
    module.__path__ = []
    for key, value in content.items():
        setattr(module, key, value)
    sys.modules[name] = module
    return module


def install():
    recipe = _module("transformer_engine.common.recipe", DelayedScaling=_Class)
    common = _module("transformer_engine.common", recipe=recipe)
    fp8 = _module("transformer_engine.pytorch.fp8", FP8GlobalStateManager=_Class, fp8_autocast=_Class)
    tracker = _module("transformer_engine.pytorch.distributed", CudaRNGStatesTracker=_Class, checkpoint=None, activation_recompute_forward=None)
    _module("transformer_engine.pytorch.float8_tensor", Float8Tensor=_Class)
    _module("transformer_engine.pytorch.cpp_extensions", cast_to_fp8=None)
    pytorch = _module(
        "transformer_engine.pytorch", fp8=fp8, distributed=tracker, ops=_Names(),
        LayerNorm=_LayerNorm, RMSNorm=_RMSNorm, Linear=_Linear, LayerNormLinear=_LayerNormLinear,
        GroupedLinear=_GroupedLinear, DotProductAttention=_DotProductAttention,
    )  # fmt: skip
    _module("transformer_engine", pytorch=pytorch, common=common, __version__="1.12.0")


def allow_sinks():
    """Call after importing megatron.core: gives these modules attention sinks, as TransformerEngine has since 2.8."""
    from megatron.core.extensions import transformer_engine as extension

    at_least = extension.is_te_min_version
    extension.is_te_min_version = lambda version, *more, **others: version == "2.8.0" or at_least(version, *more, **others)
