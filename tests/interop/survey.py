#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""survey.py TPX FOLDER [MODEL_TYPE ...]: which decoders of transformers does tpx support?

Makes a tiny random model of each type below FOLDER (existing ones are kept), inspects and converts it with TPX, and
prints a table: the family; the tensor-parallel round trip through DCP; the round trip through Megatron's names. The
environment variable TPX_RULES names files of rules to try."""
import inspect
import json
import os
import shutil
import signal
import subprocess
import sys
import warnings
from pathlib import Path

RULES = [word for file in os.environ.get("TPX_RULES", "").split() for word in ("--rules", file)]
SIZES = {
    "hidden_size": 32, "n_embd": 32, "d_model": 32, "dim": 32, "num_hidden_layers": 4, "n_layer": 4, "n_layers": 4, "num_layers": 4,
    "num_attention_heads": 4, "n_head": 4, "n_heads": 4, "num_key_value_heads": 2, "num_kv_heads": 2, "head_dim": 8,
    "intermediate_size": 48, "ffn_dim": 48, "ffn_hidden_size": 48, "d_ff": 48, "n_inner": 48, "vocab_size": 104,
    "max_position_embeddings": 64, "n_positions": 64, "max_seq_len": 64, "num_experts": 4, "n_routed_experts": 4,
    "num_local_experts": 4, "moe_num_experts": 4, "n_shared_experts": 1, "num_shared_experts": 1, "num_experts_per_tok": 2,
    "moe_topk": 2, "moe_k": 2, "top_k": 2, "moe_intermediate_size": 24, "expert_ffn_hidden_size": 24, "shared_expert_intermediate_size": 24,
    "moe_shared_expert_intermediate_size": 24, "shared_intermediate_size": 24, "n_group": 1, "topk_group": 1, "q_lora_rank": 16,
    "kv_lora_rank": 8, "qk_nope_head_dim": 8, "qk_rope_head_dim": 8, "qk_head_dim": 16, "v_head_dim": 8, "o_lora_rank": 8,
    "linear_num_key_heads": 2, "linear_num_value_heads": 4, "linear_key_head_dim": 8, "linear_value_head_dim": 8,
    "mamba_num_heads": 8, "mamba_n_heads": 8, "mamba_head_dim": 8, "mamba_d_head": 8, "mamba_d_ssm": 64, "mamba_n_groups": 2,
    "n_groups": 2, "mamba_ngroups": 2, "n_mamba_heads": 8, "ssm_state_size": 4, "mamba_d_state": 4, "state_size": 4, "expand": 2,
    "mamba_expand": 2, "num_heads": 4, "embed_dim": 32, "word_embed_proj_dim": 32, "rotary_dim": 4, "sliding_window": 8,
    "attention_chunk_size": 8, "intermediate_size_mlp": 48, "index_n_heads": 4, "index_head_dim": 16, "index_topk": 4,
    "hidden_size_per_layer_input": 8, "vocab_size_per_layer_input": 104, "laurel_rank": 4, "pad_token_id": 0, "bos_token_id": 1,
    "eos_token_id": 2, "block_multiple_of": 8, "conv_dim": 32, "depth": 2, "patch_size": 4, "image_size": 16, "out_hidden_size": 32,
    "global_head_dim": 8, "num_global_key_value_heads": 1, "swa_num_attention_heads": 4, "swa_num_key_value_heads": 2,
    "swa_head_dim": 8, "swa_v_head_dim": 8, "num_nextn_predict_layers": 0, "rms_norm_eps": 1e-6, "expert_intermediate_size": 24,
    "attn_head_dim": 8, "attention_hidden_size": 32, "vision_feature_layer": -1, "projector_hidden_size": 32,
    "num_mem_blocks": 1, "zero_expert_num": 1, "adapter_rank": 4, "hc_mult": 2, "moe_latent_size": 16,
}  # fmt: skip
PER_TYPE = {
    "nemotron_h": {"layers_block_type": ["mamba", "moe", "attention", "mlp"]},
    "granitemoehybrid": {"layers_block_type": ["mamba", "attention", "mamba", "attention"]},
    "bamba": {"attn_layer_indices": [1, 3]},
    "lfm2": {"layer_types": ["conv", "full_attention"] * 2},
    "lfm2_moe": {"layer_types": ["conv", "full_attention"] * 2, "num_dense_layers": 1},
    "jamba": {"attn_layer_period": 2, "attn_layer_offset": 1},
    "kimi_linear": {"layer_types": ["linear_attention", "full_attention"] * 2},
    "gemma4_text": {"layer_types": ["sliding_attention", "full_attention"] * 2},
    "hunyuan_v1_moe": {"moe_topk": [2] * 4, "num_shared_expert": [1] * 4, "moe_intermediate_size": [40] * 4},
    "llama4_text": {"interleave_moe_layer_step": 2},
    "stablelm": {"hidden_size": 32},
    "exaone_moe": {"first_k_dense_replace": 1},
}


def tiny(config_class, model_type):
    """A configuration of the class with small sizes, at the top or in the configurations nested in it."""
    default = config_class()
    nested = getattr(config_class, "sub_configs", {}) or {}
    settings = {key: value for key, value in SIZES.items() if hasattr(default, key) and key not in nested}
    settings = {k: v for k, v in settings.items() if getattr(default, k) is not None or k in ("num_key_value_heads", "head_dim")}
    for key, kind in nested.items():
        inner = type(getattr(default, key)) if getattr(default, key, None) is not None else kind
        if hasattr(inner, "model_type"):
            settings[key] = tiny(inner, getattr(inner, "model_type", "")).to_dict()
    for key in ("layer_types", "mlp_layer_types"):
        kinds = list(dict.fromkeys(getattr(default, key, None) or []))
        if kinds and key in inspect.signature(config_class).parameters and "layers_block_type" not in PER_TYPE.get(model_type, {}):
            settings[key] = [kinds[i % len(kinds)] for i in range(4)]
    settings.update(PER_TYPE.get(model_type, {}))
    return config_class(**settings)


def make(model_type, names, folder):
    import torch
    import transformers

    name = names[model_type]
    kind = getattr(transformers, name[0] if isinstance(name, tuple) else name)
    torch.manual_seed(7)
    model = kind(tiny(kind.config_class, model_type)).to(torch.bfloat16)
    if sum(value.numel() for value in model.parameters()) > 20_000_000:
        raise ValueError("too large")
    with torch.no_grad():
        for value in model.parameters():
            value.copy_(torch.randn(value.shape, dtype=torch.float32) * 0.05)
    model.save_pretrained(folder)


def tpx(program, *words):
    done = subprocess.run([program, *map(str, words), *RULES], capture_output=True, text=True, timeout=60)
    return "" if done.returncode == 0 else " ".join(done.stderr.split())[:200] or f"exit {done.returncode}"


def round_trip(program, source, scratch, words):
    """The first failure of the round trip, or an empty text."""
    there, back = scratch / "there", scratch / "back"
    for folder in (there, back):
        shutil.rmtree(folder, ignore_errors=True)
    return (
        tpx(program, "reshard", source, there, "--quiet", *words)
        or tpx(program, "reshard", there, back, "--quiet", "--to", "tp=1", "--format", "safetensors")
        or tpx(program, "verify", "--weights-only", source, back)
    )


def outcome(program, source, scratch):
    done = subprocess.run([program, "inspect", "--json", str(source), *RULES], capture_output=True, text=True)
    family = json.loads(done.stdout).get("family") if done.returncode == 0 else None
    cut = round_trip(program, source, scratch, ["--to", "tp=2", "--format", "dcp", "--dialect", "keep"])
    mcore = round_trip(program, source, scratch, ["--to", "tp=2", "--format", "torch_dist", "--set", "make_vocab_size_divisible_by=8"])
    return family, cut, mcore


def main():
    program, folder, *wanted = sys.argv[1:]
    folder = Path(folder).resolve()
    warnings.simplefilter("ignore")
    from transformers import logging
    from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES, MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES

    logging.set_verbosity_error()
    names = {**MODEL_FOR_CAUSAL_LM_MAPPING_NAMES, **MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES}

    def expired(*_):
        raise TimeoutError("takes more than 60 s")

    signal.signal(signal.SIGALRM, expired)
    for model_type in wanted or sorted(names):
        source = folder / model_type
        try:
            signal.alarm(60)
            if not (source / "config.json").exists():
                make(model_type, names, source)
            signal.alarm(0)
        except Exception as error:  # whatever transformers throws
            signal.alarm(0)
            shutil.rmtree(source, ignore_errors=True)
            print(f"{model_type:28} not made: {type(error).__name__}: {' '.join(str(error).split())[:120]}", flush=True)
            continue
        family, cut, mcore = outcome(program, source, folder)
        print(f"{model_type:28} {family or '-':16} tp: {cut or 'ok'}  mcore: {mcore or 'ok'}", flush=True)


if __name__ == "__main__":
    main()
