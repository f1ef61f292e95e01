# SPDX-License-Identifier: Apache-2.0
"""adapters.py FOLDER: makes in FOLDER/adapters a LoRA and a DoRA adapter of FOLDER/llama-hf with random values, a tiny GPT-2
and an adapter of its transposed weights and embeddings, a tiny Qwen3-MoE and an adapter of its experts, and the model into which
PEFT's merge_and_unload() merges each. Requires torch, transformers 5.23.0, peft 0.21.2 and a CPU with AVX2."""

import os
import sys

os.environ["ATEN_CPU_CAPABILITY"] = "avx2"

import torch  # noqa: E402
from peft import LoraConfig, PeftModel, get_peft_model  # noqa: E402
from transformers import AutoModelForCausalLM, GPT2Config, Qwen3MoeConfig  # noqa: E402

ADAPTERS = {
    "lora": LoraConfig(r=4, lora_alpha=6, target_modules=["q_proj", "v_proj", "down_proj"], use_rslora=True,
                       rank_pattern={"layers.1.self_attn.q_proj": 8}, alpha_pattern={"down_proj": 5},
                       modules_to_save=["lm_head"]),
    "gpt2": LoraConfig(r=2, lora_alpha=3, target_modules=["wte", "c_attn", "c_proj"], fan_in_fan_out=True),
    "experts": LoraConfig(r=2, lora_alpha=3, target_modules=["q_proj"], target_parameters=["mlp.experts.gate_up_proj", "mlp.experts.down_proj"]),
    "dora": LoraConfig(r=4, lora_alpha=8, target_modules=["k_proj", "o_proj", "up_proj"], use_dora=True),
}


# The models that are made here: name, configuration, dtype.
BASES = {
    "gpt2": ("tiny/gpt2", GPT2Config(n_embd=16, n_layer=1, n_head=2, vocab_size=24, n_positions=8), torch.bfloat16),
    "experts": ("tiny/qwen3-moe", Qwen3MoeConfig(hidden_size=8, intermediate_size=12, moe_intermediate_size=6, num_hidden_layers=2, num_attention_heads=2,
                                                 num_key_value_heads=1, head_dim=4, num_experts=4, num_experts_per_tok=2, vocab_size=24), torch.bfloat16),
}  # fmt: skip


def main(root):
    for name, (_, config, dtype) in BASES.items():
        torch.manual_seed(3)
        AutoModelForCausalLM.from_config(config, dtype=dtype).save_pretrained(f"{root}/adapters/{name}-base")
    for name, settings in ADAPTERS.items():
        base = f"{root}/adapters/{name}-base" if name in BASES else f"{root}/llama-hf"
        torch.manual_seed(3)
        model = get_peft_model(AutoModelForCausalLM.from_pretrained(base, dtype="auto"), settings)
        with torch.no_grad():
            for parameter in model.parameters():
                if parameter.requires_grad:
                    parameter.add_(torch.randn_like(parameter) * 0.05)
        for config in model.peft_config.values():
            config.base_model_name_or_path = BASES[name][0] if name in BASES else "tiny/llama"
        adapter = f"{root}/adapters/{name}"
        model.save_pretrained(adapter)
        os.remove(f"{adapter}/README.md")
        model = PeftModel.from_pretrained(AutoModelForCausalLM.from_pretrained(base, dtype="auto"), adapter)
        model.merge_and_unload().save_pretrained(f"{root}/adapters/{name}-merged")


if __name__ == "__main__":
    main(sys.argv[1])
