# SPDX-License-Identifier: Apache-2.0
"""excluded.py llama|linear OUT: what DeepSpeed writes under ZeRO 2 with exclude_frozen_parameters=True (DeepSpeed 0.19.8, one
rank): a Llama of two layers, of which the first is frozen, or two linear layers, of which the first is frozen."""
import os
import sys

os.environ.update(DS_ACCELERATOR="cpu", RANK="0", LOCAL_RANK="0", WORLD_SIZE="1", MASTER_ADDR="127.0.0.1", MASTER_PORT="29742")
import deepspeed
import torch
from torch import nn


def linear():
    net = nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 5))
    return net, net[0], lambda engine: engine(torch.randn(2, 3).bfloat16()).square().mean()


def llama():
    import transformers

    sizes = dict(hidden_size=8, intermediate_size=12, num_hidden_layers=2, num_attention_heads=2, num_key_value_heads=1, vocab_size=11)
    net = transformers.LlamaForCausalLM(transformers.LlamaConfig(**sizes, max_position_embeddings=16, tie_word_embeddings=False))
    return net, net.model.layers[0], lambda engine: engine(torch.tensor([[1, 2, 3], [4, 5, 6]])).logits.float().square().mean()


torch.manual_seed(4)
model, frozen, loss_of = {"linear": linear, "llama": llama}[sys.argv[1]]()
frozen.requires_grad_(False)
config = {"train_batch_size": 2, "train_micro_batch_size_per_gpu": 2, "zero_optimization": {"stage": 2}, "bf16": {"enabled": True},
          "zero_allow_untested_optimizer": True}
optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-3)
engine, *_ = deepspeed.initialize(model=model, optimizer=optimizer, config=config)
engine.backward(loss_of(engine))
engine.step()
engine.save_checkpoint(sys.argv[2], exclude_frozen_parameters=True)
