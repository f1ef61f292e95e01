# SPDX-License-Identifier: Apache-2.0
"""Tiny random models of every family, as transformers creates and saves them. After conversion to another framework's
names and back, they have the same bytes and the same config.json. If the intermediate checkpoint lacks config.json,
like Megatron's own checkpoints, transformers loads the same model with the config.json that tpx wrote."""
import copy
import json
import math
import re
import shutil
import subprocess
import tempfile
import tomllib
from pathlib import Path

import swapped_ranks
import torch
import transformers
from safetensors import safe_open

SIZES = {"hidden_size": 24, "num_hidden_layers": 4, "num_attention_heads": 4, "vocab_size": 101}
DENSE = {**SIZES, "intermediate_size": 40, "max_position_embeddings": 64, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
GLU = {**DENSE, "num_key_value_heads": 2, "rms_norm_eps": 1e-5}
LATENT = {**GLU, "rms_norm_eps": 1e-6, "num_key_value_heads": 4}  # transformers has this epsilon in the norms of latent values
EXPERTS = {"num_experts_per_tok": 2, "moe_intermediate_size": 32}
DELTA = {"linear_num_key_heads": 2, "linear_num_value_heads": 4, "linear_key_head_dim": 8, "linear_value_head_dim": 6}
INDEXED = {**LATENT, **EXPERTS, "n_routed_experts": 4, "n_group": 1, "topk_group": 1, "first_k_dense_replace": 1, "q_lora_rank": 12, "kv_lora_rank": 8, "qk_rope_head_dim": 4,
           "qk_nope_head_dim": 8, "v_head_dim": 8, "index_n_heads": 4, "index_head_dim": 8, "index_topk": 4}  # fmt: skip
PADDED = ["--set", "make_vocab_size_divisible_by=8"]

LAYERS4 = {"head_dim": 8, "global_head_dim": 12, "sliding_window": 4, "layer_types": ["sliding_attention", "full_attention"] * 2,
           "hidden_size_per_layer_input": 6, "vocab_size_per_layer_input": 102}  # fmt: skip

# Class, configuration, and the layout for the test of Megatron's names.
MEGATRON = {
    "llama": ("LlamaForCausalLM", {**GLU, "tie_word_embeddings": False}, "tp=2,pp=2"),
    "qwen2": ("Qwen2ForCausalLM", {**GLU, "tie_word_embeddings": True}, "tp=2,pp=2"),
    "qwen3": ("Qwen3ForCausalLM", {**GLU, "head_dim": 8}, "tp=2,pp=2"),
    "mixtral": ("MixtralForCausalLM", {**GLU, "num_local_experts": 4, "num_experts_per_tok": 2}, "tp=2,pp=2,dp=2,ep=2"),
    "qwen3-moe": ("Qwen3MoeForCausalLM", {**GLU, **EXPERTS, "num_experts": 4, "head_dim": 8, "norm_topk_prob": True, "mlp_only_layers": [0, 2]}, "tp=2,dp=2,ep=4,etp=1"),
    "qwen2-moe": ("Qwen2MoeForCausalLM", {**GLU, **EXPERTS, "num_experts": 4, "shared_expert_intermediate_size": 28}, "ep=2,dp=2"),
    "gpt2": ("GPT2LMHeadModel", {"n_layer": 4, "n_embd": 24, "n_head": 4, "n_positions": 32, "vocab_size": 101}, "tp=2,pp=2"),
    "gpt-neox": ("GPTNeoXForCausalLM", {**DENSE, "rotary_pct": 0.5, "use_parallel_residual": False}, "tp=2,pp=4"),
    "phi3": ("Phi3ForCausalLM", GLU, "tp=2,pp=2"),
    "deepseek-v3": (
        "DeepseekV3ForCausalLM",
        {**LATENT, **EXPERTS, "n_routed_experts": 4, "n_shared_experts": 1, "first_k_dense_replace": 1,
         "n_group": 2, "topk_group": 1, "q_lora_rank": 12, "kv_lora_rank": 8, "qk_rope_head_dim": 4, "qk_nope_head_dim": 8,
         "v_head_dim": 8},
        "tp=2,pp=2,dp=2,ep=2",
    ),
    "llama-biases": ("LlamaForCausalLM", {**GLU, "tie_word_embeddings": True, "attention_bias": True, "mlp_bias": True}, "tp=2,pp=2"),
    "llama-scaled": (
        "LlamaForCausalLM",
        {**GLU, "rope_parameters": {"rope_type": "llama3", "rope_theta": 500000.0, "factor": 8.0, "low_freq_factor": 1.0,
                                    "high_freq_factor": 4.0, "original_max_position_embeddings": 8192}},
        "tp=2,pp=2",
    ),
    "mistral-window": ("MistralForCausalLM", {**GLU, "sliding_window": 4}, "tp=2"),
    "qwen2-moe-bare": (
        "Qwen2MoeForCausalLM",
        {**GLU, **EXPERTS, "num_experts": 5, "shared_expert_intermediate_size": 12, "decoder_sparse_step": 2, "qkv_bias": False},
        "tp=2,pp=2",
    ),
    "phi3-partial": ("Phi3ForCausalLM", {**GLU, "num_key_value_heads": 1, "partial_rotary_factor": 0.5}, "pp=2"),
    "deepseek-v2": (
        "DeepseekV2ForCausalLM",
        {**LATENT, **EXPERTS, "n_routed_experts": 4, "n_shared_experts": 2, "first_k_dense_replace": 1,
         "n_group": 1, "topk_group": 1, "q_lora_rank": None, "kv_lora_rank": 8, "qk_rope_head_dim": 4, "qk_nope_head_dim": 8,
         "v_head_dim": 6},
        "tp=2,pp=2,dp=2,ep=2",
    ),
    "deepseek-v3-yarn": (
        "DeepseekV3ForCausalLM",
        {**LATENT, **EXPERTS, "n_routed_experts": 4, "n_shared_experts": 1, "first_k_dense_replace": 1,
         "n_group": 1, "topk_group": 1, "q_lora_rank": 8, "kv_lora_rank": 8, "qk_rope_head_dim": 4, "qk_nope_head_dim": 8,
         "v_head_dim": 6,
         "rope_parameters": {"rope_type": "yarn", "rope_theta": 10000.0, "factor": 40.0, "beta_fast": 32.0, "beta_slow": 1.0,
                             "mscale": 1.0, "mscale_all_dim": 1.0, "original_max_position_embeddings": 16}},
        "tp=2,pp=2",
    ),
    "glm-4.5": (
        "Glm4MoeForCausalLM",
        {**GLU, **EXPERTS, "head_dim": 8, "n_routed_experts": 4, "n_shared_experts": 1, "first_k_dense_replace": 1, "n_group": 1,
         "topk_group": 1, "attention_bias": True, "use_qk_norm": True},
        "tp=2,pp=2,dp=2,ep=2",
    ),
    "glm-4.5-dense": (
        "Glm4MoeForCausalLM",
        {**GLU, **EXPERTS, "head_dim": 8, "n_routed_experts": 4, "n_shared_experts": 1, "first_k_dense_replace": 4, "n_group": 1,
         "topk_group": 1, "attention_bias": True, "use_qk_norm": True},
        "tp=2,pp=2",
    ),
}  # fmt: skip

# The same for newer families, which are tested in fewer layouts.
NEWER = {
    "dots1": (
        "Dots1ForCausalLM",
        {**GLU, **EXPERTS, "n_routed_experts": 4, "n_shared_experts": 1, "first_k_dense_replace": 1, "norm_topk_prob": True, "routed_scaling_factor": 2.5},
        "tp=2,pp=2,dp=2,ep=2",
    ),
    "solar-open": (
        "SolarOpenForCausalLM",
        {**GLU, **EXPERTS, "head_dim": 8, "n_routed_experts": 4, "n_shared_experts": 1, "norm_topk_prob": True},
        "tp=2,pp=2,dp=2,ep=2",
    ),
    "glm-4.7-flash": (
        "Glm4MoeLiteForCausalLM",
        {**LATENT, **EXPERTS, "n_routed_experts": 4, "q_lora_rank": 12, "kv_lora_rank": 8, "qk_rope_head_dim": 4, "qk_nope_head_dim": 8, "v_head_dim": 8},
        "tp=2,pp=2,dp=2,ep=2",
    ),
    "glm-4": ("GlmForCausalLM", {**GLU, "head_dim": 8, "attention_bias": True}, "tp=2,pp=2"),
    "seed-oss": ("SeedOssForCausalLM", {**GLU, "head_dim": 8, "attention_dropout": 0.0}, "tp=2,pp=2"),
    "smollm3": ("SmolLM3ForCausalLM", {**GLU, "no_rope_layer_interval": 2}, "tp=2,pp=2"),
    "ministral": ("MinistralForCausalLM", {**GLU, "head_dim": 8, "sliding_window": 4, "layer_types": ["sliding_attention", "full_attention"] * 2}, "tp=2,pp=2"),
    "ministral3": ("Ministral3ForCausalLM", {**GLU, "head_dim": 8, "rope_parameters": {"rope_type": "default", "rope_theta": 1e6, "original_max_position_embeddings": 64, "llama_4_scaling_beta": 0.0}}, "tp=2,pp=2"),
    "ernie-4.5": ("Ernie4_5ForCausalLM", {**GLU, "head_dim": 8, "use_bias": True}, "tp=2,pp=2"),
    "gpt-oss": ("GptOssForCausalLM", {**GLU, "head_dim": 8, "num_local_experts": 4, "num_experts_per_tok": 2, "sliding_window": 4}, "tp=2,pp=2,dp=2,ep=2"),
    "olmoe": ("OlmoeForCausalLM", {**GLU, "num_experts": 4, "num_experts_per_tok": 2}, "tp=2,pp=2,dp=2,ep=2"),
    "emu3": ("Emu3ForCausalLM", {**GLU, "attention_dropout": 0.0}, "tp=2,pp=2"),
    "exaone-moe": (
        "ExaoneMoeForCausalLM",
        {**GLU, **EXPERTS, "num_experts": 4, "head_dim": 8, "sliding_window": 4, "layer_types": ["sliding_attention", "full_attention"] * 2},
        "tp=2,pp=2,dp=2,ep=2",
    ),
    "hy-v3": ("HYV3ForCausalLM", {**GLU, **EXPERTS, "num_experts": 4, "num_shared_experts": 2, "head_dim": 8}, "tp=2,pp=2,dp=2,ep=2"),
    "arcee": ("ArceeForCausalLM", GLU, "tp=2,pp=2"),
    "nemotron": ("NemotronForCausalLM", {**DENSE, "num_key_value_heads": 2, "partial_rotary_factor": 0.5}, "tp=2,pp=2"),
    "starcoder2": ("Starcoder2ForCausalLM", {**DENSE, "num_key_value_heads": 2, "sliding_window": 4}, "tp=2,pp=2"),
    "stablelm": ("StableLmForCausalLM", {**DENSE, "hidden_size": 32, "num_key_value_heads": 2, "use_qkv_bias": True}, "tp=2,pp=2"),
    "qwen3-next": ("Qwen3NextForCausalLM", {**GLU, **EXPERTS, **DELTA, "num_experts": 4, "shared_expert_intermediate_size": 28, "head_dim": 8}, "tp=2,pp=2,dp=2,ep=2"),
    "qwen3.5": ("Qwen3_5ForCausalLM", {**GLU, **DELTA, "head_dim": 8}, "tp=2,pp=2"),
    "qwen3.5-moe": ("Qwen3_5MoeForCausalLM", {**GLU, **EXPERTS, **DELTA, "num_experts": 4, "shared_expert_intermediate_size": 28, "head_dim": 8}, "tp=2,pp=2,dp=2,ep=2"),
}  # fmt: skip

# Models with biases in some linear layers. Megatron has biases in all linear layers, in those of queries, keys and
# values, or in none.
BIASES = {
    "qwen3-moe-attention": ("Qwen3MoeForCausalLM", {**GLU, **EXPERTS, "num_experts": 4, "head_dim": 8, "norm_topk_prob": True, "mlp_only_layers": [1], "attention_bias": True}),
    "llama-attention": ("LlamaForCausalLM", {**GLU, "attention_bias": True}),
    "llama-mlp": ("LlamaForCausalLM", {**GLU, "mlp_bias": True}),
    "qwen3-attention": ("Qwen3ForCausalLM", {**GLU, "head_dim": 8, "attention_bias": True}),
    "seed-oss-output": ("SeedOssForCausalLM", {**GLU, "head_dim": 8, "attention_dropout": 0.0, "attention_out_bias": True}),
    "nemotron-mlp": ("NemotronForCausalLM", {**DENSE, "num_key_value_heads": 2, "partial_rotary_factor": 0.5, "mlp_bias": True}),
}  # fmt: skip

# The same for families whose models Megatron Bridge builds, with its own layers or with layers that need a GPU.
BRIDGED = {
    "gemma": ("GemmaForCausalLM", {**GLU, "head_dim": 8}, "tp=2,pp=2"),
    "gemma2": ("Gemma2ForCausalLM", {**GLU, "head_dim": 8, "sliding_window": 4, "query_pre_attn_scalar": 8}, "tp=2,pp=2"),
    "gemma3": ("Gemma3ForCausalLM", {**GLU, "head_dim": 8, "sliding_window": 4, "query_pre_attn_scalar": 8, "layer_types": ["sliding_attention", "full_attention"] * 2,
                                         "rope_parameters": {"sliding_attention": {"rope_type": "default", "rope_theta": 5000.0}, "full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 1e6}}}, "tp=2,pp=2"),
    # Llamas with configurations of their own
    "iquestcoder": ("LlamaForCausalLM", {**GLU, "head_dim": 8, "config_class": "IQuestCoderConfig"}, "tp=2,pp=2"),
    "internlm3": ("LlamaForCausalLM", {**GLU, "head_dim": 8, "config_class": "InternLM3Config"}, "tp=2,pp=2"),
    "exaone4": ("Exaone4ForCausalLM", {**GLU, "head_dim": 8, "sliding_window": 4, "layer_types": ["sliding_attention", "full_attention"] * 2}, "tp=2,pp=2"),
    "minimax-m2": ("MiniMaxM2ForCausalLM", {**GLU, "head_dim": 8, "rotary_dim": 4, "num_local_experts": 4, "num_experts_per_tok": 2}, "tp=2,pp=2,dp=2,ep=2"),
    "ernie-4.5-moe": (
        "Ernie4_5_MoeForCausalLM",
        {**GLU, "moe_num_experts": 4, "moe_k": 2, "moe_intermediate_size": 32, "moe_num_shared_experts": 1},
        "tp=2,pp=2,dp=2,ep=2",
    ),
    "nemotron-h": (
        "NemotronHForCausalLM",
        {**DENSE, **EXPERTS, "head_dim": 6, "num_key_value_heads": 2, "n_routed_experts": 4, "moe_shared_expert_intermediate_size": 28, "n_group": 1,
         "topk_group": 1, "mamba_num_heads": 4, "mamba_head_dim": 6, "n_groups": 2, "ssm_state_size": 4,
         "layers_block_type": ["linear_attention", "moe", "full_attention", "mlp"]},
        "tp=2,pp=2,dp=2,ep=2",
    ),
    "falcon-h1": ("FalconH1ForCausalLM", {**GLU, "head_dim": 8, "mamba_d_ssm": 48, "mamba_n_heads": 8, "mamba_d_head": 6, "mamba_n_groups": 2, "mamba_d_state": 4, "mamba_rms_norm": True, "mlp_multipliers": [0.5, 1.25]}, "tp=2,pp=2"),
    "deepseek-v3.2": ("DeepseekV32ForCausalLM", INDEXED, "tp=2,pp=2,dp=2,ep=2"),
    "glm-5": ("GlmMoeDsaForCausalLM", INDEXED, "tp=2,pp=2,dp=2,ep=2"),
    "mimo-v2-flash": (
        "MiMoV2FlashForCausalLM",
        {**GLU, **EXPERTS, "n_routed_experts": 4, "head_dim": 12, "v_head_dim": 8, "sliding_window": 5, "layer_types": ["full_attention", "sliding_attention"] * 2},
        "tp=2,pp=2,dp=2,ep=2",
    ),
    "gemma4": ("Gemma4ForCausalLM", {**GLU, **LAYERS4}, "tp=2,pp=2"),
    "gemma4-keys": ("Gemma4ForCausalLM", {**GLU, **LAYERS4, "num_key_value_heads": 4, "num_global_key_value_heads": 2, "attention_k_eq_v": True, "hidden_size_per_layer_input": 0}, "tp=2,pp=2"),
    "gemma4-experts": (
        "Gemma4ForCausalLM",
        {**GLU, **LAYERS4, "enable_moe_block": True, "num_experts": 4, "top_k_experts": 2, "moe_intermediate_size": 32, "hidden_size_per_layer_input": 0, "attention_k_eq_v": True,
         "num_key_value_heads": 4, "num_global_key_value_heads": 2},
        "tp=2,pp=2,dp=2,ep=2",
    ),
}  # fmt: skip

# Models that contain a language model, with layers of Megatron Bridge: towers are whole on the first stage.
TEXT = {**GLU, "max_position_embeddings": 64}
MROPE = {"rope_parameters": {"rope_type": "default", "rope_theta": 1e6, "mrope_section": [1, 1, 1]}}
TOWER = {"hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2, "num_attention_heads": 2, "image_size": 28, "patch_size": 14}
EARS = {"d_model": 16, "encoder_layers": 1, "encoder_attention_heads": 2, "encoder_ffn_dim": 24, "num_mel_bins": 8, "max_source_positions": 16, "output_dim": 24, "n_window": 8}
EYES = {"depth": 2, "hidden_size": 16, "num_heads": 2, "intermediate_size": 24, "out_hidden_size": 24}
BLOCKS = {**EYES, "num_position_embeddings": 16, "patch_size": 4}
OUTER = {
    "qwen3-vl": ("Qwen3VLForConditionalGeneration", {"text_config": {**TEXT, **MROPE, "head_dim": 8}, "vision_config": {**BLOCKS, "deepstack_visual_indexes": [0, 1]}}, "tp=2,pp=2"),
    "qwen3-vl-moe": (
        "Qwen3VLMoeForConditionalGeneration",
        {"text_config": {**TEXT, **MROPE, **EXPERTS, "num_experts": 4, "head_dim": 8}, "vision_config": {**BLOCKS, "deepstack_visual_indexes": [0, 1]}},
        "tp=2,pp=2,dp=2,ep=2",
    ),
    # Its fused experts are as wide as they are high.
    "qwen3-vl-moe-square": (
        "Qwen3VLMoeForConditionalGeneration",
        {"text_config": {**TEXT, **MROPE, **EXPERTS, "num_experts": 4, "head_dim": 8, "moe_intermediate_size": 12}, "vision_config": {**BLOCKS, "deepstack_visual_indexes": [0, 1]}},
        "tp=2,pp=2,dp=2,ep=2",
    ),
    "qwen3.5-vl": (
        "Qwen3_5ForConditionalGeneration",
        {"text_config": {**TEXT, **DELTA, "head_dim": 8, "layer_types": ["linear_attention", "full_attention"] * 2}, "vision_config": BLOCKS},
        "tp=2,pp=2",
    ),
    "qwen3.5-vl-moe": (
        "Qwen3_5MoeForConditionalGeneration",
        {"text_config": {**TEXT, **DELTA, **EXPERTS, "num_experts": 4, "shared_expert_intermediate_size": 28, "head_dim": 8, "layer_types": ["linear_attention", "full_attention"] * 2},
         "vision_config": BLOCKS},
        "tp=2,pp=2,dp=2,ep=2",
    ),
    "qwen2-vl": ("Qwen2VLForConditionalGeneration", {"text_config": {**TEXT, **MROPE}, "vision_config": {"depth": 2, "embed_dim": 16, "num_heads": 2, "hidden_size": 24}}, "tp=2,pp=2"),
    "qwen2.5-vl": ("Qwen2_5_VLForConditionalGeneration", {"text_config": {**TEXT, **MROPE}, "vision_config": {**EYES, "fullatt_block_indexes": [1]}}, "tp=2,pp=2"),
    "gemma3-vl": (
        "Gemma3ForConditionalGeneration",
        {"text_config": {**TEXT, "head_dim": 8, "sliding_window": 4, "layer_types": ["sliding_attention", "full_attention"] * 2}, "vision_config": TOWER,
         "mm_tokens_per_image": 4, "image_token_index": 100, "boi_token_index": 98, "eoi_token_index": 99},
        "tp=2,pp=2",
    ),
    "gemma4-vl": (
        "Gemma4ForConditionalGeneration",
        {"text_config": {**TEXT, **LAYERS4, "num_key_value_heads": 4, "num_global_key_value_heads": 2, "attention_k_eq_v": True, "hidden_size_per_layer_input": 0},
         "vision_config": {"hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2, "num_attention_heads": 2, "num_key_value_heads": 2, "head_dim": 8, "patch_size": 4,
                           "position_embedding_size": 16, "pooling_kernel_size": 2},
         "audio_config": None, "image_token_id": 100, "boi_token_id": 98, "eoi_token_id": 99},
        "tp=2,pp=2",
    ),
    "mistral3": (
        "Mistral3ForConditionalGeneration",
        {"text_config": {**TEXT, "model_type": "ministral3", "head_dim": 8}, "vision_config": {**TOWER, "model_type": "pixtral", "head_dim": 8}, "image_token_index": 100},
        "tp=2,pp=2",
    ),
    "mistral3-small": (
        "Mistral3ForConditionalGeneration",
        {"text_config": {**TEXT, "model_type": "mistral", "head_dim": 8}, "vision_config": {**TOWER, "model_type": "pixtral", "head_dim": 8}, "image_token_index": 100,
         "tie_word_embeddings": False},
        "tp=2,pp=2",
    ),
    "qwen2.5-omni": (
        "Qwen2_5OmniForConditionalGeneration",
        {"enable_audio_output": False, "thinker_config": {"text_config": {**TEXT, **MROPE}, "vision_config": {**EYES, "fullatt_block_indexes": [1]}, "audio_config": EARS}},
        "tp=2,pp=2",
    ),
    "qwen3-omni": (
        "Qwen3OmniMoeForConditionalGeneration",
        {"enable_audio_output": False,
         "thinker_config": {"text_config": {**TEXT, **MROPE, **EXPERTS, "num_experts": 4, "head_dim": 8},
                            "vision_config": {**EYES, "deepstack_visual_indexes": [0], "num_position_embeddings": 16}, "audio_config": {**EARS, "downsample_hidden_size": 16}}},
        "tp=2,pp=2,dp=2,ep=2",
    ),
    "glm-4.5v": (
        "Glm4vMoeForConditionalGeneration",
        {"text_config": {**TEXT, **EXPERTS, **MROPE, "head_dim": 8, "n_routed_experts": 4, "n_shared_experts": 1, "first_k_dense_replace": 1, "n_group": 1, "topk_group": 1, "attention_bias": True},
         "vision_config": {**EYES, "image_size": 28, "patch_size": 14}},
        "tp=2,pp=2,dp=2,ep=2",
    ),
    "minimax-m3": (
        "MiniMaxM3SparseForConditionalGeneration",
        {"text_config": {**TEXT, "head_dim": 8, "intermediate_size": 32, "dense_intermediate_size": 40, "num_local_experts": 4, "num_experts_per_tok": 2,
                         "shared_intermediate_size": 28, "n_shared_experts": 1, "rotary_dim": 4, "index_n_heads": 4, "index_head_dim": 8,
                         "mlp_layer_types": ["dense", "sparse", "sparse", "sparse"], "layer_types": ["minimax_m3_sparse", "full_attention"] * 2},
         "vision_config": TOWER, "projector_hidden_size": 20},
        "tp=2,pp=2,dp=2,ep=2",
    ),
    "exaone-4.5": (
        "Exaone4_5_ForConditionalGeneration",
        {"text_config": {**TEXT, "model_type": "exaone4", "head_dim": 8, "sliding_window": 4, "layer_types": ["sliding_attention", "full_attention"] * 2},
         "vision_config": {**EYES, "num_heads": 4, "num_key_value_heads": 2, "fullatt_block_indexes": [1], "patch_size": 4}},
        "tp=2,pp=2",
    ),
    "ernie-4.5-vl": (
        "Ernie4_5_VLMoeForConditionalGeneration",
        {"text_config": {**TEXT, **MROPE, "moe_num_experts": 4, "moe_k": 2, "moe_intermediate_size": [32, 12], "moe_num_shared_experts": 1},
         "vision_config": {"depth": 1, "hidden_size": 16, "num_heads": 2, "intermediate_size": 24, "patch_size": 4}},
        "tp=2,pp=2,dp=2,ep=2",
    ),
    "step-3.7": (
        "Step3p7ForConditionalGeneration",
        {"text_config": {**GLU, **EXPERTS, "head_dim": 8, "n_routed_experts": 4, "share_expert_dim": 28, "num_sliding_attention_heads": 6, "sliding_window": 4,
                         "layer_types": ["full_attention", "sliding_attention"] * 2, "mlp_layer_types": ["dense", "sparse"] * 2},
         "vision_config": {**TOWER, "num_hidden_layers": 1, "mlp_ratio": 2.0}},
        "tp=2,pp=2,dp=2,ep=2",
    ),
    "qwen2-audio": (
        "Qwen2AudioForConditionalGeneration",
        {"text_config": {**TEXT, "model_type": "qwen2"}, "audio_token_index": 100,
         "audio_config": {"encoder_layers": 2, "encoder_attention_heads": 2, "encoder_ffn_dim": 24, "d_model": 16, "num_mel_bins": 8, "max_source_positions": 16}},
        "tp=2,pp=2",
    ),
}  # fmt: skip

# Settings that tpx requests if config.json is lost, because Megatron's args lack them.
ASKED = {"falcon-h1": "mlp_multipliers", **dict.fromkeys(("mimo-v2-flash", "gemma4", "gemma4-keys", "gemma4-experts"), "rope_parameters"), **dict.fromkeys(OUTER, "config.json")}

# Shared by two models each.
QWEN4 = {**GLU, **EXPERTS, **DELTA, "head_dim": 8, "num_experts": 4, "shared_expert_intermediate_size": 28, "layer_types": ["linear_attention", "full_attention"] * 2, "hc_count": 2, "hc_lowrank": 8,
         "ple_layer_ids": [1], "ple_embed_dim": 24, "ngram_size": 3, "heads_per_ngram": 2, "ngram_vocab_size_base": 50, "make_ngram_vocab_size_divisible_by": 8, "split_ngram_parts": 2,
         "indexer_n_heads": 2, "indexer_kv_heads": 1, "indexer_head_dim": 8, "indexer_budget": 4, "indexer_compress_ratio": 2}  # fmt: skip
DOTS = {**LATENT, **EXPERTS, "n_routed_experts": 4, "n_shared_experts": 1, "first_k_dense_replace": 1, "q_lora_rank": 12, "kv_lora_rank": 8, "qk_rope_head_dim": 4, "qk_nope_head_dim": 8,
        "v_head_dim": 8, "head_dim": 12, "index_n_heads": 4, "index_head_dim": 8, "index_topk": 4, "shared_experts_intermediate_size": 28, "sliding_window": 4,
        "layer_types": ["full_attention", "sliding_attention"] * 2, "swa_num_attention_heads": 2, "swa_num_key_value_heads": 2, "swa_q_lora_rank": 10, "swa_kv_lora_rank": 6, "swa_head_dim": 14,
        "swa_qk_nope_head_dim": 10, "swa_qk_rope_head_dim": 4, "swa_v_head_dim": 6}  # fmt: skip

INKLING = {**GLU, **EXPERTS, "head_dim": 8, "n_routed_experts": 4, "n_shared_experts": 2, "swa_num_attention_heads": 4, "swa_num_key_value_heads": 4, "swa_head_dim": 6, "sliding_window_size": 4,
           "d_rel": 4, "rel_extent": 8, "layer_types": ["hybrid", "hybrid_sliding"] * 2, "mlp_layer_types": ["dense", "sparse"] * 2}  # fmt: skip

INKLING2 = {**GLU, "head_dim": 8, "n_routed_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 32, "swa_num_attention_heads": 4, "swa_num_key_value_heads": 4, "swa_head_dim": 6,
            "sliding_window_size": 4, "d_rel": 4, "rel_extent": 8, "n_layers_per_attn_res_block": 2, "layer_types": ["hybrid", "hybrid_sliding"] * 2}  # fmt: skip

BYTES = {**DENSE, "vocab_size": 261, "hidden_size_global": 48, "cross_attn_k": 2}

# Families that Megatron-core does not support: their names are kept, and tensor parallelism must split them correctly.
KEPT = {
    "glm-default": ("GlmForCausalLM", {**GLU, "head_dim": 8}),
    "ernie4-5-default": ("Ernie4_5ForCausalLM", {**GLU, "head_dim": 8}),
    "starcoder2-default": ("Starcoder2ForCausalLM", {**DENSE, "num_key_value_heads": 2}),
    "qwen3-next-default": ("Qwen3NextForCausalLM", {**GLU, **EXPERTS, **DELTA, "num_experts": 4, "head_dim": 8, "shared_expert_intermediate_size": 28}),
    "mistral-default": ("MistralForCausalLM", {**GLU, "num_attention_heads": 16, "num_key_value_heads": 8, "head_dim": 8}),
    "gemma4-biases": ("Gemma4ForCausalLM", {**GLU, **LAYERS4, "attention_bias": True}),
    "gemma4-keys-biases": ("Gemma4ForCausalLM", {**GLU, **LAYERS4, "num_key_value_heads": 4, "num_global_key_value_heads": 2, "attention_k_eq_v": True, "hidden_size_per_layer_input": 0, "attention_bias": True}),
    "mimo-v2-flash-biases": ("MiMoV2FlashForCausalLM", {**GLU, **EXPERTS, "n_routed_experts": 4, "head_dim": 12, "v_head_dim": 8, "sliding_window": 5, "layer_types": ["full_attention", "sliding_attention"] * 2, "attention_bias": True}),
    "hy-v3-biases": ("HYV3ForCausalLM", {**GLU, **EXPERTS, "num_experts": 4, "num_shared_experts": 2, "head_dim": 8, "attention_bias": True, "mlp_bias": True}),
    "deepseek-v2-biases": (
        "DeepseekV2ForCausalLM",
        {**LATENT, **EXPERTS, "n_routed_experts": 4, "n_shared_experts": 2, "first_k_dense_replace": 1, "n_group": 1, "topk_group": 1, "q_lora_rank": 12, "kv_lora_rank": 8,
         "qk_rope_head_dim": 4, "qk_nope_head_dim": 8, "v_head_dim": 6, "attention_bias": True, "mlp_bias": True},
    ),
    "aria-biases": ("AriaTextForCausalLM", {**GLU, "moe_num_experts": 4, "moe_topk": 2, "moe_num_shared_experts": 1, "attention_bias": True, "mlp_bias": True}),
    "hrm-text-biases": ("HrmTextForCausalLM", {**DENSE, "num_hidden_layers": 2, "head_dim": 8, "attention_bias": True, "mlp_bias": True}),
    "bailing-hybrid-biases": (
        "BailingHybridForCausalLM",
        {**LATENT, "num_experts": 4, "num_experts_per_token": 2, "moe_intermediate_size": 32, "n_shared_experts": 1, "num_expert_group": 1, "topk_group": 1, "first_k_dense_replace": 1,
         "kv_lora_rank": 8, "qk_nope_head_dim": 8, "qk_rope_head_dim": 4, "v_head_dim": 8, "head_dim": 6, "layer_group_size": 2, "num_nextn_predict_layers": 0, "attention_bias": True},
    ),
    "cpmant": ("CpmAntForCausalLM", {"vocab_size": 101, "hidden_size": 24, "num_attention_heads": 4, "dim_head": 6, "dim_ff": 40, "num_hidden_layers": 2, "prompt_types": 3, "prompt_length": 2, "segment_types": 3,
                                     "position_bias_num_buckets": 8, "position_bias_max_distance": 16}),
    "xlnet": ("XLNetLMHeadModel", {"vocab_size": 101, "d_model": 24, "n_layer": 2, "n_head": 4, "d_inner": 40}),
    "blt": (
        "BltForCausalLM",
        {"vocab_size": 261, "hidden_size": 24, "encoder_hash_byte_group_vocab": 51, "encoder_hash_byte_group_size": [3, 4, 5],
         "patcher_config": {**GLU, "num_hidden_layers": 2, "vocab_size": 261}, "encoder_config": {**BYTES, "num_hidden_layers": 1}, "decoder_config": {**BYTES, "num_hidden_layers": 2},
         "global_config": {**SIZES, "hidden_size": 48, "intermediate_size": 40}, "patching_threshold": 1.3},
    ),
    "moshi": ("MoshiForCausalLM", {"vocab_size": 101, "hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 6, "ffn_dim": 80, "audio_vocab_size": 11,
                                   "max_position_embeddings": 32, "num_codebooks": 2}),
    "bloom": ("BloomForCausalLM", {"hidden_size": 24, "n_layer": 2, "n_head": 4, "vocab_size": 101}),
    "falcon-new": ("FalconForCausalLM", {**SIZES, "num_kv_heads": 2, "new_decoder_architecture": True}),
    "falcon-multi-query": ("FalconForCausalLM", {**SIZES, "multi_query": True, "new_decoder_architecture": False}),
    "falcon-old": ("FalconForCausalLM", {**SIZES, "multi_query": False, "new_decoder_architecture": False, "bias": True, "parallel_attn": False}),
    "bert": ("BertForMaskedLM", DENSE),
    "bert-base": ("BertModel", DENSE),
    "gpt2-base": ("GPT2Model", {"n_layer": 2, "n_embd": 24, "n_head": 4, "n_positions": 32, "vocab_size": 101}),
    "t5": ("T5ForConditionalGeneration", {"d_model": 24, "d_kv": 6, "d_ff": 40, "num_layers": 2, "num_decoder_layers": 3, "num_heads": 4, "vocab_size": 101}),
    "t5-gated": ("T5ForConditionalGeneration", {"d_model": 24, "d_kv": 6, "d_ff": 40, "num_layers": 2, "num_heads": 4, "vocab_size": 101, "feed_forward_proj": "gated-gelu", "tie_word_embeddings": False}),
    "t5-words": ("T5ForTokenClassification", {"d_model": 24, "d_kv": 6, "d_ff": 40, "num_layers": 2, "num_heads": 4, "vocab_size": 101}),
    "t5-encoder": ("T5EncoderModel", {"d_model": 24, "d_kv": 5, "d_ff": 40, "num_layers": 2, "num_heads": 2, "vocab_size": 101}),
    "bert-classes": ("BertForSequenceClassification", {**DENSE, "num_labels": 3}),
    "bert-answers": ("BertForQuestionAnswering", DENSE),
    "llama-base": ("LlamaModel", GLU),
    "llama-classes": ("LlamaForSequenceClassification", {**GLU, "num_labels": 3}),
    "gpt2-classes": ("GPT2ForSequenceClassification", {"n_layer": 2, "n_embd": 24, "n_head": 4, "n_positions": 32, "vocab_size": 101, "num_labels": 2, "pad_token_id": 0}),
    "olmo": ("OlmoForCausalLM", GLU),
    "olmo2": ("Olmo2ForCausalLM", GLU),
    "olmo3": ("Olmo3ForCausalLM", {**GLU, "sliding_window": 4}),
    "flex-olmo": ("FlexOlmoForCausalLM", {**GLU, "num_experts": 4, "num_experts_per_tok": 2}),
    "glm4-0414": ("Glm4ForCausalLM", {**GLU, "head_dim": 8, "attention_bias": True}),
    "granite": ("GraniteForCausalLM", {**GLU, "embedding_multiplier": 12.0, "logits_scaling": 8.0}),
    "granite-windows": ("GraniteSWAForCausalLM", {**GLU, "sliding_window": 4}),
    "granite-moe": ("GraniteMoeForCausalLM", {**GLU, "num_local_experts": 4, "num_experts_per_tok": 2}),
    "granite-moe-shared": ("GraniteMoeSharedForCausalLM", {**GLU, "num_local_experts": 4, "num_experts_per_tok": 2, "shared_intermediate_size": 28}),
    "llama4": ("Llama4ForCausalLM", {**GLU, "head_dim": 8, "intermediate_size": 32, "intermediate_size_mlp": 40, "num_local_experts": 4, "interleave_moe_layer_step": 2, "attention_chunk_size": 8}),
    "cohere": ("CohereForCausalLM", {**GLU, "use_qk_norm": True}),
    "cohere2": ("Cohere2ForCausalLM", {**GLU, "head_dim": 8, "sliding_window": 4}),
    "ernie-4.5-moe-biases": ("Ernie4_5_MoeForCausalLM", {**GLU, "moe_num_experts": 4, "moe_k": 2, "moe_intermediate_size": 32, "moe_num_shared_experts": 1, "use_bias": True}),
    "phi": ("PhiForCausalLM", {**DENSE, "hidden_size": 32, "num_key_value_heads": 2, "qk_layernorm": True}),
    "hunyuan": ("HunYuanDenseV1ForCausalLM", {**GLU, "head_dim": 8, "attention_bias": True}),
    "hunyuan-moe": ("HunYuanMoEV1ForCausalLM", {**GLU, "head_dim": 8, "num_experts": 4, "moe_topk": [2] * 4, "num_shared_expert": [1] * 4, "moe_intermediate_size": [40] * 4}),
    "afmoe": ("AfmoeForCausalLM", {**GLU, **EXPERTS, "num_experts": 4, "head_dim": 8, "num_dense_layers": 1, "sliding_window": 4}),
    "apertus": ("ApertusForCausalLM", GLU),
    "helium": ("HeliumForCausalLM", {**GLU, "head_dim": 6}),
    "phimoe": ("PhimoeForCausalLM", {**GLU, "num_local_experts": 4, "num_experts_per_tok": 2}),
    "opt": ("OPTForCausalLM", {"hidden_size": 24, "ffn_dim": 40, "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 101, "max_position_embeddings": 64, "word_embed_proj_dim": 24}),
    "gemma4-shared": ("Gemma4ForCausalLM", {**GLU, **LAYERS4, "num_kv_shared_layers": 2, "use_double_wide_mlp": True}),
    "vaultgemma": ("VaultGemmaForCausalLM", {**GLU, "head_dim": 8}),
    "granite-moe-windows": ("GraniteMoeSWAForCausalLM", {**GLU, "num_local_experts": 4, "num_experts_per_tok": 2}),
    "deepseek-v4": (
        "DeepseekV4ForCausalLM",
        {**GLU, **EXPERTS, "n_routed_experts": 4, "head_dim": 16, "q_lora_rank": 12, "o_lora_rank": 8, "o_groups": 2, "index_n_heads": 4, "index_head_dim": 8,
         "qk_rope_head_dim": 4, "num_hash_layers": 1, "layer_types": ["sliding_attention", "heavily_compressed_attention", "compressed_sparse_attention", "compressed_sparse_attention"]},
    ),
    "hy-v4": ("HYV4ForCausalLM", {**INDEXED, "n_shared_experts": 1, "hc_mult": 3, "mlp_layer_types": ["dense", "sparse", "sparse", "sparse"],
                                   "indexer_types": ["full", "full", "shared", "shared"], "layer_types": ["indexed_attention"] * 4}),
    "olmo-hybrid": ("OlmoHybridForCausalLM", {**GLU, **DELTA, "linear_num_value_heads": 2, "linear_value_head_dim": 8, "layer_types": ["linear_attention", "full_attention"] * 2}),
    "kimi-linear": (
        "KimiLinearForCausalLM",
        {**LATENT, **EXPERTS, "num_experts": 4, "num_experts_per_token": 2, "num_shared_experts": 1, "kv_lora_rank": 8, "qk_nope_head_dim": 8, "qk_rope_head_dim": 4, "v_head_dim": 8,
         "linear_num_heads": 4, "linear_head_dim": 6, "layer_types": ["linear_attention", "full_attention"] * 2, "mlp_layer_types": ["dense", "sparse", "sparse", "sparse"]},
    ),
    "gemma3n": (
        "Gemma3nForCausalLM",
        {**GLU, "head_dim": 8, "sliding_window": 4, "layer_types": ["sliding_attention", "full_attention"] * 2, "num_kv_shared_layers": 2, "hidden_size_per_layer_input": 6,
         "vocab_size_per_layer_input": 90, "laurel_rank": 4, "altup_num_inputs": 3, "intermediate_size": [40] * 4, "activation_sparsity_pattern": [0.0] * 4},
    ),
    "laguna": ("LagunaForCausalLM", {**GLU, **EXPERTS, "head_dim": 8, "num_experts": 4, "shared_expert_intermediate_size": 28, "sliding_window": 4,
                                     "layer_types": ["full_attention", "sliding_attention"] * 2, "mlp_layer_types": ["dense", "sparse"] * 2}),
    "laguna-heads": ("LagunaForCausalLM", {**GLU, **EXPERTS, "head_dim": 8, "num_experts": 4, "shared_expert_intermediate_size": 28, "num_attention_heads_per_layer": [4, 6, 6, 4], "gating": "per-element"}),
    "kimi-linear-biases": (
        "KimiLinearForCausalLM",
        {**LATENT, **EXPERTS, "num_experts": 4, "num_experts_per_token": 2, "num_shared_experts": 1, "kv_lora_rank": 8, "qk_nope_head_dim": 8, "qk_rope_head_dim": 4, "v_head_dim": 8,
         "linear_num_heads": 4, "linear_head_dim": 6, "layer_types": ["linear_attention", "full_attention"] * 2, "mlp_layer_types": ["dense", "sparse", "sparse", "sparse"], "attention_bias": True},
    ),
    "gemma3n-biases": (
        "Gemma3nForCausalLM",
        {**GLU, "head_dim": 8, "sliding_window": 4, "layer_types": ["sliding_attention", "full_attention"] * 2, "num_kv_shared_layers": 2, "hidden_size_per_layer_input": 6,
         "vocab_size_per_layer_input": 90, "laurel_rank": 4, "altup_num_inputs": 3, "intermediate_size": [40] * 4, "activation_sparsity_pattern": [0.0] * 4, "attention_bias": True},
    ),
    "lfm3-biases": ("Lfm3ForCausalLM", {**GLU, "layer_types": ["conv", "full_attention"] * 2, "attention_bias": True}),
    "stablelm-12b": ("StableLmForCausalLM", {**DENSE, "hidden_size": 32, "num_key_value_heads": 2, "use_parallel_residual": True, "qk_layernorm": True}),
    "lfm3": ("Lfm3ForCausalLM", {**GLU, "layer_types": ["conv", "full_attention"] * 2}),
    "mellum": ("MellumForCausalLM", {**GLU, **EXPERTS, "num_experts": 4, "head_dim": 8, "sliding_window": 4, "layer_types": ["sliding_attention", "full_attention"] * 2}),
    "minicpm3": ("MiniCPM3ForCausalLM", {**LATENT, "q_lora_rank": 12, "kv_lora_rank": 8, "qk_rope_head_dim": 4, "qk_nope_head_dim": 8, "v_head_dim": 8}),
    "youtu": ("YoutuForCausalLM", {**LATENT, "q_lora_rank": 12, "kv_lora_rank": 8, "qk_rope_head_dim": 4, "qk_nope_head_dim": 8, "v_head_dim": 8}),
    "mistral4": ("Mistral4ForCausalLM", {**LATENT, **EXPERTS, "n_routed_experts": 4, "n_shared_experts": 1, "n_group": 1, "topk_group": 1, "first_k_dense_replace": 0,
                                         "q_lora_rank": 12, "kv_lora_rank": 8, "qk_rope_head_dim": 4, "qk_nope_head_dim": 8, "v_head_dim": 8}),
    "longcat-flash": ("LongcatFlashForCausalLM", {**LATENT, "num_layers": 2, "num_hidden_layers": 4, "n_routed_experts": 4, "zero_expert_num": 0, "moe_topk": 2, "ffn_hidden_size": 40, "head_dim": 4,
                                                  "expert_ffn_hidden_size": 32, "q_lora_rank": 12, "kv_lora_rank": 8, "qk_rope_head_dim": 4, "qk_nope_head_dim": 8, "v_head_dim": 8}),
    "longcat-flash-biases": ("LongcatFlashForCausalLM", {**LATENT, "num_layers": 2, "attention_bias": True, "num_hidden_layers": 4, "n_routed_experts": 4, "zero_expert_num": 0, "moe_topk": 2, "ffn_hidden_size": 40, "head_dim": 4,
                                                         "expert_ffn_hidden_size": 32, "q_lora_rank": 12, "kv_lora_rank": 8, "qk_rope_head_dim": 4, "qk_nope_head_dim": 8, "v_head_dim": 8}),
    "mamba": ("MambaForCausalLM", {"hidden_size": 24, "num_hidden_layers": 2, "state_size": 4, "vocab_size": 101, "time_step_rank": 3}),
    "falcon-mamba": ("FalconMambaForCausalLM", {"hidden_size": 24, "num_hidden_layers": 2, "state_size": 4, "vocab_size": 101, "time_step_rank": 3}),
    "jamba": ("JambaForCausalLM", {**GLU, "num_experts": 4, "num_experts_per_tok": 2, "attn_layer_period": 2, "attn_layer_offset": 1, "mamba_d_state": 4, "mamba_dt_rank": 3, "use_mamba_kernels": False}),
    "cohere2-moe": ("Cohere2MoeForCausalLM", {**GLU, "head_dim": 8, "num_experts": 4, "num_experts_per_tok": 2, "num_shared_experts": 1, "sliding_window": 4, "layer_types": ["sliding_attention", "full_attention"] * 2}),
    "cohere2-moe-prefix": ("Cohere2MoeForCausalLM", {**GLU, "head_dim": 8, "num_experts": 4, "num_experts_per_tok": 2, "num_shared_experts": 1, "first_k_dense_replace": 2, "prefix_dense_intermediate_size": 56}),
    "nanochat": ("NanoChatForCausalLM", GLU),
    "minimax": ("MiniMaxForCausalLM", {**GLU, "head_dim": 8, "num_local_experts": 4, "num_experts_per_tok": 2, "block_size": 4, "layer_types": ["full_attention", "linear_attention"] * 2}),
    "gpt-bigcode": ("GPTBigCodeForCausalLM", {"n_layer": 2, "n_embd": 24, "n_head": 4, "n_positions": 32, "vocab_size": 101}),
    "gpt-bigcode-heads": ("GPTBigCodeForCausalLM", {"n_layer": 2, "n_embd": 24, "n_head": 4, "n_positions": 32, "vocab_size": 101, "multi_query": False}),
    "gptj": ("GPTJForCausalLM", {"n_layer": 2, "n_embd": 24, "n_head": 4, "n_positions": 32, "vocab_size": 101, "rotary_dim": 4}),
    "mpt": ("MptForCausalLM", {"d_model": 24, "n_layers": 2, "n_heads": 4, "max_seq_len": 32, "vocab_size": 101}),
    "bitnet": ("BitNetForCausalLM", GLU),
    "hyperclovax": ("HyperCLOVAXForCausalLM", GLU),
    "kolibri1": ("Kolibri1ForCausalLM", {**GLU, **EXPERTS, "head_dim": 8, "num_experts": 4, "shared_expert_intermediate_size": 28}),
    "flint": ("FlintForCausalLM", {**GLU, **EXPERTS, "head_dim": 8, "num_experts": 4, "shared_expert_intermediate_size": 28}),
    "muse-glimmer": ("MuseGlimmerForConditionalGeneration", {"text_config": {**GLU, "head_dim": 6}, "vision_config": {"hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 1, "num_attention_heads": 2}}),
    "axk1": ("AXK1ForCausalLM", {**LATENT, **EXPERTS, "n_routed_experts": 4, "n_shared_experts": 1, "first_k_dense_replace": 1, "n_group": 1, "topk_group": 1, "q_lora_rank": 12, "kv_lora_rank": 8,
                                 "qk_rope_head_dim": 4, "qk_nope_head_dim": 8, "v_head_dim": 8}),
    "jais2": ("Jais2ForCausalLM", {**DENSE, "num_key_value_heads": 2}),
    "glm-4.1v": ("Glm4vForConditionalGeneration", {"text_config": {**GLU, **MROPE}, "vision_config": {**EYES, "image_size": 28, "patch_size": 14}}),
    "qwen4-exp": ("Qwen4ExpForCausalLM", QWEN4),
    "qwen4-exp-plain": ("Qwen4ExpForCausalLM", {**QWEN4, "ple_layer_ids": None}),
    "lfm2-adjusted": ("Lfm2ForCausalLM", {**GLU, "block_auto_adjust_ff_dim": True, "block_multiple_of": 8, "block_ffn_dim_multiplier": 1.0, "layer_types": ["conv", "full_attention"] * 2}),
    "axk2": ("AXK2ForCausalLM", {**INDEXED, "n_shared_experts": 1, "gated_norm_rank": 6}),
    "zaya": ("ZayaForCausalLM", {**GLU, "head_dim": 8, "num_experts": 4, "num_experts_per_tok": 1, "moe_intermediate_size": 32, "router_hidden_size": 12, "sliding_window": 4,
                                 "layer_types": ["hybrid", "hybrid_sliding"] * 2}),
    "mllama": (
        "MllamaForConditionalGeneration",
        {"text_config": {**GLU, "num_hidden_layers": 4, "cross_attention_layers": [1, 3], "rope_parameters": {"rope_type": "default", "rope_theta": 1e4}},
         "vision_config": {**TOWER, "num_global_layers": 1, "attention_heads": 2, "intermediate_layers_indices": [0, 1], "max_num_tiles": 1, "supported_aspect_ratios": [[1, 1]], "vision_output_dim": 48},
         "image_token_index": 100},
    ),
    "mistral-large4": (
        "MistralLarge4ForConditionalGeneration",
        {"text_config": {**LATENT, **EXPERTS, "n_routed_experts": 4, "n_shared_experts": 1, "n_group": 1, "topk_group": 1, "first_k_dense_replace": 1, "kv_lora_rank": 8, "qk_rope_head_dim": 4,
                         "qk_nope_head_dim": 8, "v_head_dim": 8, "index_n_heads": 4, "index_head_dim": 8, "index_topk": 4, "no_rope_layers": [1, 1, 0, 1], "indexer_types": ["full", "shared"] * 2,
                         "attention_bias": True},
         "vision_config": {**TOWER, "model_type": "pixtral", "head_dim": 8}, "image_token_index": 100},
    ),
    "dots3-note": ("Dots3NoteForCausalLM", DOTS),
    "inkling": (
        "InklingForConditionalGeneration",
        {"text_config": INKLING,
         "audio_config": {"n_mel_bins": 4, "mel_vocab_size": 8, "text_hidden_size": 24},
         "vision_config": {"text_hidden_size": 24, "patch_size": 4, "hidden_size": 16, "num_hidden_layers": 4, "num_attention_heads": 2}},
    ),
    "minimax-m3-text": (
        "MiniMaxM3VLForCausalLM",
        {**TEXT, "head_dim": 8, "intermediate_size": 32, "dense_intermediate_size": 40, "num_local_experts": 4, "num_experts_per_tok": 2, "shared_intermediate_size": 28,
         "n_shared_experts": 1, "rotary_dim": 4, "index_n_heads": 4, "index_head_dim": 8, "mlp_layer_types": ["dense", "sparse", "sparse", "sparse"], "layer_types": ["full_attention"] * 4},
    ),
    "inkling-text": ("InklingForCausalLM", INKLING),
    "dots3-note-omni": (
        "Dots3NoteForConditionalGeneration",
        {"text_config": DOTS,
         "vision_config": {"hidden_size": 16, "intermediate_size": 24, "moe_intermediate_size": 8, "num_hidden_layers": 2, "num_attention_heads": 2, "pyramid_num_routed": [-1, 2], "adapter_in_dim": 16, "adapter_out_dim": 24},
         "audio_config": {"hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 1, "num_attention_heads": 2, "feature_size": 8, "downsample_hidden_size": 4, "adapter_input_size": 16, "adapter_out_dim": 24}},
    ),
    "lfm2": ("Lfm2ForCausalLM", {**GLU, "layer_types": ["conv", "full_attention"] * 2}),
    "lfm2-moe": ("Lfm2MoeForCausalLM", {**GLU, **EXPERTS, "num_experts": 4, "num_dense_layers": 1, "layer_types": ["conv", "full_attention"] * 2}),
    "granite-hybrid-biases": ("GraniteMoeHybridForCausalLM", {**GLU, "num_local_experts": 4, "num_experts_per_tok": 2, "shared_intermediate_size": 28, "mamba_n_heads": 8, "mamba_d_head": 6, "mamba_n_groups": 2, "mamba_d_state": 4, "layer_types": ["mamba", "attention"] * 2, "attention_bias": True}),
    "granite-hybrid": ("GraniteMoeHybridForCausalLM", {**GLU, "num_local_experts": 4, "num_experts_per_tok": 2, "shared_intermediate_size": 28, "mamba_n_heads": 8, "mamba_d_head": 6, "mamba_n_groups": 2, "mamba_d_state": 4, "layer_types": ["mamba", "attention"] * 2}),
    "glm5-next": (
        "Glm5NextForConditionalGeneration",
        {"text_config": {**LATENT, **EXPERTS, "n_routed_experts": 4, "n_shared_experts": 1, "kv_lora_rank": 8, "q_lora_rank": 12, "qk_rope_head_dim": 0, "qk_nope_head_dim": 8, "v_head_dim": 8, "head_dim": 0,
                         "index_topk": 4, "index_head_dim": 8, "index_n_heads": 4, "index_kpool": 2, "linear_head_dim": 6, "linear_num_heads": 4, "hc_mult": 2, "mlp_layer_types": ["dense", *["sparse"] * 3],
                         "layer_types": ["linear_attention", "indexed_attention"] * 2, "indexer_types": ["full"] * 4},
         "vision_config": {**EYES, "image_size": 28, "patch_size": 14}},
    ),
    "bamba-biases": ("BambaForCausalLM", {**GLU, "attn_layer_indices": [1], "mamba_n_heads": 8, "mamba_d_head": 6, "mamba_n_groups": 2, "mamba_d_state": 4, "attention_bias": True, "mlp_bias": True}),
    "bamba": ("BambaForCausalLM", {**GLU, "attn_layer_indices": [1], "mamba_n_heads": 8, "mamba_d_head": 6, "mamba_n_groups": 2, "mamba_d_state": 4}),
    "bailing-hybrid": (
        "BailingHybridForCausalLM",
        {**LATENT, "num_experts": 4, "num_experts_per_token": 2, "moe_intermediate_size": 32, "n_shared_experts": 1, "num_expert_group": 1, "topk_group": 1, "first_k_dense_replace": 1,
         "kv_lora_rank": 8, "qk_nope_head_dim": 8, "qk_rope_head_dim": 4, "v_head_dim": 8, "head_dim": 6, "layer_group_size": 2, "num_nextn_predict_layers": 0},
    ),
    "granitemoe-swa-shared": ("GraniteMoeSWAForCausalLM", {**GLU, "num_local_experts": 4, "num_experts_per_tok": 2, "shared_intermediate_size": 28, "tie_word_embeddings": True}),
    "gemma4-unified": ("Gemma4UnifiedForConditionalGeneration", {"text_config": {**TEXT, **LAYERS4}}),
    "diffllama": ("DiffLlamaForCausalLM", {**GLU, "num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 6, "attention_bias": True}),
    "persimmon": ("PersimmonForCausalLM", {**DENSE, "hidden_size": 32}),
    "fuyu": ("FuyuForCausalLM", {"text_config": {**DENSE, "hidden_size": 32, "model_type": "persimmon"}, "image_size": 8, "patch_size": 4, "num_channels": 1}),
    "xglm": ("XGLMForCausalLM", {"d_model": 24, "ffn_dim": 40, "num_layers": 2, "attention_heads": 4, "vocab_size": 101, "max_position_embeddings": 64}),
    "biogpt": ("BioGptForCausalLM", DENSE),
    "biogpt-classes": ("BioGptForSequenceClassification", {**DENSE, "num_labels": 3}),
    "codegen": ("CodeGenForCausalLM", {"n_layer": 2, "n_embd": 32, "n_head": 8, "n_positions": 32, "vocab_size": 101, "rotary_dim": 2}),
    "openai-gpt": ("OpenAIGPTLMHeadModel", {"n_layer": 2, "n_embd": 24, "n_head": 4, "n_positions": 32, "vocab_size": 101}),
    "gpt-neo": ("GPTNeoForCausalLM", {"hidden_size": 24, "num_layers": 2, "num_heads": 4, "vocab_size": 101, "max_position_embeddings": 64, "attention_types": [[["global", "local"], 1]], "window_size": 4}),
    "gpt-neox-japanese": ("GPTNeoXJapaneseForCausalLM", {**SIZES, "max_position_embeddings": 64, "intermediate_multiple_size": 2}),
    "ctrl": ("CTRLLMHeadModel", {"n_layer": 2, "n_embd": 24, "n_head": 4, "n_positions": 32, "vocab_size": 101, "dff": 40}),
    "modernbert-decoder": ("ModernBertDecoderForCausalLM", {**DENSE, "local_attention": 8, "cls_token_id": 3, "sep_token_id": 4}),
    "modernbert-decoder-biases": (
        "ModernBertDecoderForCausalLM",
        {**DENSE, "local_attention": 8, "cls_token_id": 3, "sep_token_id": 4, "norm_bias": True, "attention_bias": True, "mlp_bias": True, "classifier_bias": True, "decoder_bias": False},
    ),
    "dbrx": ("DbrxForCausalLM", {"d_model": 24, "n_heads": 4, "n_layers": 2, "max_seq_len": 64, "vocab_size": 101, "attn_config": {"kv_n_heads": 2, "rope_theta": 1e4, "clip_qkv": 8},
                                 "ffn_config": {"ffn_hidden_size": 32, "moe_num_experts": 4, "moe_top_k": 2}}),
    "doge": ("DogeForCausalLM", GLU),
    "doge-experts": ("DogeForCausalLM", {**GLU, "is_moe": True, "num_experts": 16, "num_experts_per_tok": 2, "attention_bias": True, "mlp_bias": True}),
    "jetmoe": ("JetMoeForCausalLM", {**GLU, "kv_channels": 6, "num_local_experts": 4, "num_experts_per_tok": 2}),
    "aria": ("AriaTextForCausalLM", {**GLU, "moe_num_experts": 4, "moe_topk": 2, "moe_num_shared_experts": 1}),
    "recurrent-gemma": ("RecurrentGemmaForCausalLM", {**DENSE, "num_key_value_heads": 2, "lru_width": 32, "attention_window_size": 8, "block_types": ["recurrent", "attention"]}),
    "recurrent-gemma-biases": ("RecurrentGemmaForCausalLM", {**DENSE, "attention_bias": True}),
    "mamba2": ("Mamba2ForCausalLM", {"hidden_size": 24, "num_hidden_layers": 2, "num_heads": 8, "head_dim": 6, "state_size": 4, "n_groups": 2, "vocab_size": 101, "chunk_size": 8}),
    "mamba2-biases": ("Mamba2ForCausalLM", {"hidden_size": 24, "num_hidden_layers": 2, "num_heads": 8, "head_dim": 6, "state_size": 4, "n_groups": 2, "vocab_size": 101, "chunk_size": 8,
                                            "use_bias": True, "use_conv_bias": False}),
    "xlstm": ("xLSTMForCausalLM", {"hidden_size": 128, "num_hidden_layers": 2, "num_heads": 4, "vocab_size": 101, "ffn_round_up_to_multiple_of": 8, "chunk_size": 8}),
    "xlstm-biases": ("xLSTMForCausalLM", {"hidden_size": 128, "num_hidden_layers": 2, "num_heads": 4, "vocab_size": 101, "ffn_round_up_to_multiple_of": 8, "chunk_size": 8, "use_bias": True}),
    "rwkv": ("RwkvForCausalLM", {"hidden_size": 24, "num_hidden_layers": 2, "vocab_size": 101, "intermediate_size": 40}),
    "beam": ("BeamForCausalLM", {**GLU, **EXPERTS, "num_experts": 4, "head_dim": 8, "n_group": 2, "topk_group": 1, "sliding_window": 4, "mlp_layer_types": ["dense", "sparse"] * 2}),
    "hrm-text": ("HrmTextForCausalLM", {**DENSE, "num_hidden_layers": 2, "head_dim": 8}),
    "inkling2": ("Inkling2ForCausalLM", INKLING2),
    "inkling2-vl": (
        "Inkling2ForConditionalGeneration",
        {"text_config": INKLING2, "vision_config": {"text_hidden_size": 24, "patch_size": 4, "hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "projection_hidden_dim": 20}},
    ),
    "zamba": ("ZambaForCausalLM", {**GLU, "num_hidden_layers": 6, "layers_block_type": ["mamba", "mamba", "hybrid", "mamba", "hybrid", "mamba"], "n_mamba_heads": 2, "mamba_d_state": 4,
                                   "mamba_dt_rank": 3, "use_mamba_kernels": False}),
    "zamba-default": ("ZambaForCausalLM", {**GLU, "num_hidden_layers": 8, "n_mamba_heads": 2, "mamba_d_state": 4, "mamba_dt_rank": 3, "use_mamba_kernels": False}),
    "zamba-period": ("ZambaForCausalLM", {**GLU, "num_hidden_layers": 8, "attn_layer_period": 3, "attn_layer_offset": 1, "n_mamba_heads": 2, "mamba_d_state": 4, "mamba_dt_rank": 3, "use_mamba_kernels": False}),
    "zamba-early": ("ZambaForCausalLM", {**GLU, "layers_block_type": ["mamba", "hybrid"] * 2, "n_mamba_heads": 2, "mamba_d_state": 4, "mamba_dt_rank": 3, "use_mamba_kernels": False}),
    "zamba2": ("Zamba2ForCausalLM", {**DENSE, "num_hidden_layers": 5, "layers_block_type": ["mamba", "hybrid", "mamba", "hybrid", "hybrid"], "n_mamba_heads": 8, "mamba_d_state": 4, "mamba_ngroups": 2,
                                     "use_mamba_kernels": False, "num_mem_blocks": 2, "adapter_rank": 4, "use_shared_attention_adapter": True, "chunk_size": 8}),
    "zamba2-biases": ("Zamba2ForCausalLM", {**DENSE, "num_hidden_layers": 5, "layers_block_type": ["mamba", "hybrid", "mamba", "hybrid", "hybrid"], "n_mamba_heads": 8, "mamba_d_state": 4,
                                            "mamba_ngroups": 2, "use_mamba_kernels": False, "num_mem_blocks": 2, "adapter_rank": 4, "add_bias_linear": True, "chunk_size": 8}),
    "cohere-compass": ("CohereCompassForCausalLM", {**GLU, "rope_parameters": {"full_attention": {"rope_type": "default", "rope_theta": 1e4}}}),
    "aria-vl": (
        "AriaForConditionalGeneration",
        {"text_config": {**GLU, "moe_num_experts": 4, "moe_topk": 2, "moe_num_shared_experts": 1}, "vision_config": {**TOWER, "model_type": "idefics3_vision"}, "image_token_index": 100,
         "projector_patch_to_query_dict": {"4": 2}},
    ),
    "unlimited-ocr": (
        "UnlimitedOcrForConditionalGeneration",
        {"text_config": {**GLU, **EXPERTS, "n_routed_experts": 4, "n_shared_experts": 1, "n_group": 1, "topk_group": 1, "mlp_layer_types": ["dense", "sparse", "sparse", "sparse"]},
         "vision_config": {"sam_config": {"hidden_size": 16, "output_channels": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "image_size": 32, "patch_size": 8, "mlp_dim": 24, "downsample_channels": [8, 16]},
                           "encoder_config": {"hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 1, "num_attention_heads": 2, "image_size": 28, "patch_size": 14}}},
    ),
    "muse-spark": (
        "MuseSparkForConditionalGeneration",
        {"text_config": {**GLU, **EXPERTS, "head_dim": 6, "num_local_experts": 4, "moe_hidden_size": 16, "sliding_window": 4, "mlp_layer_types": ["dense", "sparse"] * 2},
         "vision_config": {"hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 1, "num_attention_heads": 2}, "out_hidden_size": 20, "projector_hidden_size": 16,
         "audio_config": {"patch_sizes": [2, 2], "hidden_sizes": [8, 8], "depths": [1, 1], "num_hidden_layers": 2, "out_hidden_size": 24}, "image_token_id": 100, "video_token_id": 99, "audio_token_id": 98},
    ),
    # Parts outside the language model have names that no rule matches: each rank has them whole.
    "minicpm-v": ("MiniCPMV4_6ForConditionalGeneration", {"text_config": {**TEXT, **DELTA, "head_dim": 8, "layer_types": ["linear_attention", "full_attention"] * 2}, "vision_config": {**TOWER, "patch_size": 7}}),
    "emu3-vl": (
        "Emu3ForConditionalGeneration",
        {"text_config": GLU, "vocabulary_map": {"<image>": 98}, "vq_config": {"codebook_size": 32, "embed_dim": 4, "latent_channels": 4, "base_channels": 32, "channel_multiplier": [1, 1], "num_res_blocks": 1, "hidden_size": 32, "temporal_downsample_factor": 1}},
    ),
    "ovis2": ("Ovis2ForConditionalGeneration", {"text_config": {**TEXT, "model_type": "qwen2"}, "vision_config": {**TOWER, "vocab_size": 32, "num_visual_indicator_tokens": 2}}),
}  # fmt: skip


# Parts of models outside the language model, and adapters, which no rule counts.
OTHER_PARTS = re.compile(r"vqmodel|local_encoder|local_decoder|patcher|_adapter_list|visual\.|visual_embeddings|vision|audio|projector|connector|merger|resampler|patch_merge_mlp|self_attn\.index_|sam_model|view_seperator|image_newline")

# Models for which `tpx plan --model` counts different parameters from those that transformers saves, or refuses to
# count them, with a part of its message.
COUNTED = "parameters, transformers saves"
REFUSED = "plan from a checkpoint"
UNPLANNED = {
    # their config.json has a layer for multi-token prediction, which transformers does not build
    **dict.fromkeys(("deepseek-v3", "deepseek-v3-yarn", "deepseek-v4", "glm-4.5", "glm-4.5-dense"), COUNTED),
    # without the output layer of a language model
    **dict.fromkeys(("bert-classes", "bert-answers", "biogpt-classes", "gpt2-classes", "llama-base", "llama-classes", "t5-words", "t5-encoder"), COUNTED),
    # norms for each head, which every rank has
    "stablelm-12b": COUNTED,
    # of decoders with more layers than the encoder, the additional layers are not counted
    "t5": COUNTED,
    # its experts are looked up by keys, whose number is the square root of the number of experts
    "doge-experts": REFUSED,
    # sizes of its heads are fractions of the hidden size
    **dict.fromkeys(("xlstm", "xlstm-biases"), REFUSED),
    # only its tensors show where the shared block is stored
    "zamba-early": COUNTED,
    # its tables of n-grams have prime numbers of rows
    "qwen4-exp": REFUSED,
}  # fmt: skip

# Entries that the config.json of these models lacks, as in their releases.
DEFAULT_GROUPS = ("glm-default", "ernie4-5-default", "starcoder2-default", "qwen3-next-default", "mistral-default")
UNSAVED = {**dict.fromkeys(DEFAULT_GROUPS, ("num_key_value_heads",)), "zamba-default": ("layers_block_type", "attn_layer_period", "attn_layer_offset"), "zamba-period": ("layers_block_type",)}

# Models whose logits change when two ranks exchange shards, by reason:
ORDERED = {
    # positions depend on the number of the head
    *("bloom", "mpt"),
    # all query heads share one key-value head, which every rank has
    *("falcon-multi-query", "gpt-bigcode", "deepseek-v4"),
    # every rank has the weights of norms over all heads
    *("stablelm-12b", "olmo2", "olmo3", "flex-olmo", "olmo-hybrid"),
    # every rank has the steps and keys of all heads, in their order
    *("doge", "doge-experts"),
    # every rank has the whole input of a projection
    "muse-spark",
    # rows of a vocabulary are split
    *("gemma4", "gemma4-shared", "gemma4-biases", "moshi"),
    # every rank has the low-rank adapters of all rows
    *("zamba2", "zamba2-biases"),
}  # fmt: skip


# Other causal language models of transformers, without a family in tpx: encoders with a head, decoders of translation,
# speech, images and bytes, draft models for speculative decoding, and research models from before 2021.
OTHERS = {
    *("bert-generation", "big_bird", "camembert", "data2vec-text", "electra", "ernie", "megatron-bert", "rembert", "roberta", "roberta-prelayernorm"),
    *("roc_bert", "roformer", "xlm", "xlm-roberta", "xlm-roberta-xl", "xmod", "bart", "bigbird_pegasus", "blenderbot", "blenderbot-small", "marian"),
    *("mbart", "mvp", "pegasus", "plbart", "prophetnet", "trocr", "whisper", "musicgen", "musicgen_melody", "git"),
    *("gemma4_assistant", "gemma4_unified_assistant", "reformer"),
    "gpt-sw3",  # its config.json says gpt2
}


def _types():
    """Types of decoders in transformers that are in no family, neither alone nor as the model inside another one."""
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING
    from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

    known = set()
    for path in sorted((Path(__file__).resolve().parents[2] / "formats/rules").glob("*.toml")):
        rules = tomllib.loads(path.read_text())
        known.update(rules.get("detect", {}).get("hf", []))
        known.update(kind for outer in rules.get("outer", []) for kind in outer["types"])

    def inside(kind):
        parts = getattr(CONFIG_MAPPING[kind], "sub_configs", None) or {}
        return {getattr(getattr(CONFIG_MAPPING[kind](), name, None), "model_type", "") for name in parts}

    rest = [kind for kind in sorted(MODEL_FOR_CAUSAL_LM_MAPPING_NAMES) if kind not in known | OTHERS]
    return [f"no family names {kind}" for kind in rest if not inside(kind) & known] + [f"{kind} has a family; remove it from OTHERS" for kind in sorted(OTHERS & known)]


def _config(kind, settings):
    # transformers adds defaults to the dicts that it gets, and several models here share these dicts.
    settings = copy.deepcopy(settings)
    own = settings.pop("config_class", None)
    return (getattr(transformers, own) if own else getattr(transformers, kind).config_class)(**settings)


def _save(kind, settings, folder, unsaved=()):
    torch.manual_seed(7)
    model = getattr(transformers, kind)(_config(kind, settings)).to(torch.bfloat16)
    with torch.no_grad():
        for name, value in [*model.named_parameters(), *model.named_buffers()]:
            if value.is_floating_point() and "inv_freq" not in str(value.shape):
                value.copy_(torch.randn(value.shape, dtype=torch.float32) * 0.05)
            if name.endswith("linear_attn.norm.weight"):  # Megatron stores it less 1, which is exact for these values
                value.copy_((value * 64).round() / 64 + 0.0)  # and has no -0
    model.save_pretrained(folder)
    if unsaved:
        config = json.loads((folder / "config.json").read_text())
        (folder / "config.json").write_text(json.dumps({key: value for key, value in config.items() if key not in unsaved}, indent=2))


def _tensors(folder):
    found = {}
    for path in sorted(Path(folder).glob("*.safetensors")):
        with safe_open(path, "pt") as file:
            for name in file.keys():
                value = file.get_tensor(name)
                found[name] = (value.dtype, tuple(value.shape), value.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
    return found


def _logits(model):
    ids = torch.arange(3, 19).reshape(2, 8)
    if model.config.model_type == "xlnet":  # whose positions are f32
        model = model.float()
    given = {"input_ids": ids, "decoder_input_ids": ids} if model.config.is_encoder_decoder else {"input_ids": ids}
    if model.config.model_type == "blt":  # whose configuration does not say how many layers a cache has
        given["use_cache"] = False
    with torch.no_grad():
        out = model.eval()(**given)
    return next(getattr(out, name) for name in ("logits", "start_logits", "last_hidden_state") if hasattr(out, name))


def _load(kind, folder):
    model, info = getattr(transformers, kind).from_pretrained(folder, output_loading_info=True, dtype="auto")
    faults = [
        f"transformers: {what}: {sorted(map(str, info[what]))[:3]}"
        for what in ("missing_keys", "unexpected_keys", "mismatched_keys", "error_msgs")
        if info.get(what)
    ]
    return model, faults


def _differences(found, expected):
    faults = [f"missing: {name}" for name in sorted(expected.keys() - found.keys())]
    faults += [f"unexpected: {name}" for name in sorted(found.keys() - expected.keys())]
    return faults + [f"differs: {name}" for name in sorted(expected.keys() & found.keys()) if found[name] != expected[name]]


def _tpx(tpx, *words):
    done = subprocess.run([tpx, *map(str, words)], capture_output=True, text=True)
    return [] if done.returncode == 0 else [f"{' '.join(map(str, words[:1]))}: exit {done.returncode}: {done.stderr.strip()}"]


def _planned(tpx, folder):
    """Differences between the parameters of a language model that `tpx plan --model` counts and those that transformers
    saves."""
    words = ["plan", "--model", folder / "config.json", "--from", "tp=1", "--to", "tp=1", "--roles", "weights", "--json"]
    done = subprocess.run([tpx, *map(str, words)], capture_output=True, text=True)
    if done.returncode != 0:
        return [f"plan: exit {done.returncode}: {done.stderr.strip()}"]
    planned = sum(role["needed"] for role in json.loads(done.stdout)["roles"].values()) // 2  # in bf16
    saved = sum(math.prod(shape) for name, (_, shape, _) in _tensors(folder).items() if not OTHER_PARTS.search(name))
    return [] if planned == saved else [f"plan: {planned} parameters, transformers saves {saved}"]


def _exchanged(tpx, kind, hf, scratch, ordered):
    """Faults: the model computes something else after two tensor-parallel ranks exchange their shards."""
    split, exchanged = Path(scratch, "split"), Path(scratch, "exchanged")
    faults = _tpx(tpx, "reshard", hf, split, "--quiet", "--to", "tp=2", "--format", "dcp", "--dialect", "keep")
    if faults:
        return faults
    changed = swapped_ranks.exchange(hf, split, exchanged)
    models = [swapped_ranks.enlarged(getattr(transformers, kind).from_pretrained(folder, dtype=torch.float32)) for folder in (hf, exchanged)]
    if changed == 0:
        return ["no tensor is split over two ranks with equal shards"]
    logits = list(map(_logits, models))
    if not all(torch.isfinite(one).all() for one in logits):
        return ["two ranks exchange their shards: logits are not finite"]
    if swapped_ranks.same(*logits):
        return ["two ranks can exchange their shards; remove the model from ORDERED"] if ordered else []
    return [] if ordered else [f"two ranks exchange their shards of {changed} tensors: other logits"]


def _by_titan(tpx, hf, scratch):
    """Converts through the default names of DCP, which are torchtitan's if it has the model."""
    there, back = Path(scratch, "titan"), Path(scratch, "from_titan")
    faults = _tpx(tpx, "reshard", hf, there, "--quiet", "--to", "fsdp=2", "--format", "dcp")
    if faults and "which titan names must have" in faults[0]:  # models without an output layer
        return []
    faults = faults or _tpx(tpx, "reshard", there, back, "--quiet", "--to", "tp=1", "--format", "safetensors")
    return faults or [f"through DCP: {fault}" for fault in _differences(_tensors(back), _tensors(hf))]


def _there_and_back(tpx, kind, settings, there_words, scratch, megatron, asked, unplanned=None, ordered=False, unsaved=()):
    hf, there, back = (Path(scratch, name) for name in ("hf", "there", "back"))
    _save(kind, settings, hf, unsaved)
    wrong = _planned(tpx, hf)
    if unplanned and not wrong:
        return ["plan: it counts what transformers saves; remove the model from UNPLANNED"]
    if wrong and (not unplanned or unplanned not in wrong[0]):
        return wrong
    (hf / "tokenizer.json").write_text("{}")
    faults = _tpx(tpx, "reshard", hf, there, "--quiet", *there_words)
    faults = faults or _tpx(tpx, "reshard", there, back, "--quiet", "--to", "tp=1", "--format", "safetensors")
    faults = faults or _tpx(tpx, "verify", "--weights-only", hf, there) + _tpx(tpx, "verify", hf, back)
    if faults:
        return faults
    faults = _differences(_tensors(back), _tensors(hf))
    for path in hf.glob("*.json"):
        if not (back / path.name).exists() or (back / path.name).read_bytes() != path.read_bytes():
            faults.append(f"{path.name} is not what it was")
    if megatron and not faults:
        next(there.rglob("config.json")).unlink()
        shutil.rmtree(back)
        faults = _tpx(tpx, "reshard", there, back, "--quiet", "--to", "tp=1", "--format", "safetensors")
        if asked:
            return [] if faults and asked in faults[0] else [f"tpx does not ask for {asked}: {faults}"]
        faults = faults or _differences(_tensors(back), _tensors(hf))
    if faults:
        return faults
    model, before = _load(kind, hf)
    again, after = _load(kind, back)
    faults += before + after
    if not faults and not torch.equal(_logits(model), _logits(again)):
        faults.append("transformers: other logits")
    return faults if faults or megatron else _by_titan(tpx, hf, scratch) + _exchanged(tpx, kind, hf, scratch, ordered)


def _biases(tpx, kind, settings, scratch):
    """Zero biases that Megatron needs are added only with --allow-missing; on the way back, those that config.json
    lacks are dropped."""
    hf, there, back = (Path(scratch, name) for name in ("hf", "there", "back"))
    _save(kind, settings, hf)
    words = ["reshard", hf, there, "--quiet", "--to", "tp=2,pp=2", "--format", "torch_dist", *PADDED]
    refused = _tpx(tpx, *words)
    if not refused or "--allow-missing" not in refused[0]:
        return [f"tpx does not ask for --allow-missing: {refused}"]
    faults = _tpx(tpx, *words, "--allow-missing") or _tpx(tpx, "reshard", there, back, "--quiet", "--to", "tp=1", "--format", "safetensors")
    return faults or _differences(_tensors(back), _tensors(hf)) + _load(kind, back)[1]


def main(tpx):
    failed = 0
    transformers.logging.set_verbosity_error()
    kept = {**KEPT, **{f"{name}, kept": entry[:2] for name, entry in BRIDGED.items()}}
    for name, (kind, settings, *layout) in {**MEGATRON, **NEWER, **BRIDGED, **OUTER, **kept}.items():
        with tempfile.TemporaryDirectory() as scratch:
            if layout:
                words = ["--to", layout[0], "--format", "torch_dist", *PADDED]
            else:
                words = ["--to", "tp=2,fsdp=2", "--format", "dcp", "--dialect", "keep"]
            try:
                own = name.removesuffix(", kept")
                faults = _there_and_back(tpx, kind, settings, words, scratch, bool(layout), ASKED.get(name), UNPLANNED.get(own), own in ORDERED, UNSAVED.get(own, ()))
            except Exception as error:
                faults = [f"{type(error).__name__}: {error}"]
        failed += bool(faults)
        print(f"{'FAIL' if faults else 'ok'}: {name} ({kind}) through {words[1]} of {words[3]}")
        for line in faults[:6]:
            print(f"  {line}")
    faults = _types()
    failed += bool(faults)
    print("\n  ".join([f"{'FAIL' if faults else 'ok'}: types of decoders", *faults]))
    for name, (kind, settings) in BIASES.items():
        with tempfile.TemporaryDirectory() as scratch:
            faults = _biases(tpx, kind, settings, scratch)
        failed += bool(faults)
        print(f"{'FAIL' if faults else 'ok'}: biases of {name} ({kind})")
        for line in faults[:6]:
            print(f"  {line}")
    return 1 if failed else 0
