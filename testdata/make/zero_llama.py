# SPDX-License-Identifier: Apache-2.0
"""torchrun --nproc-per-node 2 zero_llama.py OUT: one step of a Llama of two layers under ZeRO 2 (DeepSpeed 0.19.8), with the two
groups of parameters that transformers' Trainer makes: tensors of one axis do not decay. It writes config.json, too."""
import os
import sys

os.environ.update(DS_ACCELERATOR="cpu")
import deepspeed
import torch
import transformers

torch.manual_seed(4)
sizes = dict(hidden_size=8, intermediate_size=12, num_hidden_layers=2, num_attention_heads=2, num_key_value_heads=1, vocab_size=11)
settings = transformers.LlamaConfig(**sizes, max_position_embeddings=16, tie_word_embeddings=False)
model = transformers.LlamaForCausalLM(settings)
groups = [{"params": [p for p in model.parameters() if p.ndim > 1], "weight_decay": 0.1},
          {"params": [p for p in model.parameters() if p.ndim == 1], "weight_decay": 0.0}]
config = {"train_batch_size": 2, "train_micro_batch_size_per_gpu": 1, "zero_optimization": {"stage": 2}, "bf16": {"enabled": True},
          "zero_allow_untested_optimizer": True}
engine, *_ = deepspeed.initialize(model=model, optimizer=torch.optim.AdamW(groups, lr=1e-3), config=config)
engine.backward(engine(torch.tensor([[1, 2, 3], [4, 5, 6]])).logits.float().square().mean())
engine.step()
engine.save_checkpoint(sys.argv[1])
if int(os.environ["RANK"]) == 0:
    settings.save_pretrained(sys.argv[1])
