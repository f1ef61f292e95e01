# SPDX-License-Identifier: Apache-2.0
"""layers.py TESTDATA: writes models of two layers that differ, as transformers 5.23 saves them: layers/gemma4, a Gemma 4 whose
layer with full attention has keys as values; layers/gemma4-values, the same with values of their own; layers/laguna, a Laguna
whose layers have 4 and 8 heads. Values are those of outer.py."""
import sys
from pathlib import Path

from outer import write

TYPES = ["sliding_attention", "full_attention"]
COMMON = {"dtype": "bfloat16", "hidden_size": 8, "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 16, "max_position_embeddings": 64,
          "rms_norm_eps": 1e-6, "sliding_window": 4, "layer_types": TYPES}  # fmt: skip
GEMMA = {**COMMON, "model_type": "gemma4_text", "architectures": ["Gemma4ForCausalLM"], "attention_k_eq_v": True, "num_key_value_heads": 4, "num_global_key_value_heads": 4,
         "head_dim": 4, "global_head_dim": 6, "intermediate_size": 12, "hidden_size_per_layer_input": 0, "num_kv_shared_layers": 0, "tie_word_embeddings": True,
         "rope_parameters": {kind: {"rope_type": "default", "rope_theta": 10000.0} for kind in TYPES}}  # fmt: skip
LAGUNA = {**COMMON, "model_type": "laguna", "architectures": ["LagunaForCausalLM"], "num_key_value_heads": 4, "num_attention_heads_per_layer": [4, 8], "head_dim": 4,
          "intermediate_size": 16, "moe_intermediate_size": 8, "shared_expert_intermediate_size": 8, "num_experts": 4, "num_experts_per_tok": 2,
          "mlp_layer_types": ["dense", "sparse"], "gating": "per-head", "tie_word_embeddings": False, "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0}}  # fmt: skip


def mlp(start, hidden, wide):
    yield f"{start}gate_proj.weight", [wide, hidden]
    yield f"{start}up_proj.weight", [wide, hidden]
    yield f"{start}down_proj.weight", [hidden, wide]


def attention(start, hidden, heads, groups, head, values=True):
    yield f"{start}q_proj.weight", [heads * head, hidden]
    yield f"{start}k_proj.weight", [groups * head, hidden]
    if values:
        yield f"{start}v_proj.weight", [groups * head, hidden]
    yield f"{start}o_proj.weight", [hidden, heads * head]
    yield f"{start}q_norm.weight", [head]
    yield f"{start}k_norm.weight", [head]


def gemma(values):
    yield "model.embed_tokens.weight", [16, 8]
    for layer, head in enumerate([4, 6]):
        start = f"model.layers.{layer}."
        for norm in ("input_layernorm", "post_attention_layernorm", "pre_feedforward_layernorm", "post_feedforward_layernorm"):
            yield f"{start}{norm}.weight", [8]
        yield from attention(f"{start}self_attn.", 8, 4, 4, head, values or layer == 0)
        yield from mlp(f"{start}mlp.", 8, 12)
        yield f"{start}layer_scalar", [1]
    yield "model.norm.weight", [8]


def laguna():
    yield "model.embed_tokens.weight", [16, 8]
    for layer, heads in enumerate([4, 8]):
        start = f"model.layers.{layer}."
        yield f"{start}input_layernorm.weight", [8]
        yield from attention(f"{start}self_attn.", 8, heads, 4, 4)
        yield f"{start}self_attn.g_proj.weight", [heads, 8]
        yield f"{start}post_attention_layernorm.weight", [8]
    yield from mlp("model.layers.0.mlp.", 8, 16)
    yield "model.layers.1.mlp.gate.weight", [4, 8]
    yield "model.layers.1.mlp.experts.e_score_correction_bias", [4]
    for expert in range(4):
        yield from mlp(f"model.layers.1.mlp.experts.{expert}.", 8, 8)
    yield from mlp("model.layers.1.mlp.shared_expert.", 8, 8)
    yield "model.norm.weight", [8]
    yield "lm_head.weight", [16, 8]


write(Path(sys.argv[1], "layers/gemma4"), GEMMA, gemma(values=False))
write(Path(sys.argv[1], "layers/gemma4-values"), {**GEMMA, "attention_k_eq_v": False}, gemma(values=True))
write(Path(sys.argv[1], "layers/laguna"), LAGUNA, laguna())
