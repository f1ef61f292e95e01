#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Experts of DeepSpeed's MoE layers on three ranks: DS_ACCELERATOR=cpu torchrun --nproc-per-node 3 testdata/make/moe_ep3.py OUT
with PYTHONSAFEPATH=1 (DeepSpeed 0.19.8)

Two steps of AdamW under ZeRO 1 on a layer of six experts (bf16), two on each rank, and a linear layer. Values depend on the
seed only.
"""
import sys

import deepspeed
import torch
import torch.distributed as dist
from deepspeed.moe.layer import MoE
from deepspeed.moe.utils import split_params_into_different_moe_groups_for_optimizer
from torch import nn

deepspeed.init_distributed(dist_backend="gloo")
torch.manual_seed(7)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(4, 4)
        self.moe = MoE(4, nn.Linear(4, 4), num_experts=6, ep_size=3, k=1, use_rts=False)

    def forward(self, x):
        return self.moe(self.inner(x))[0]


model = Net()
with torch.no_grad():
    for name, parameter in model.named_parameters():
        if "deepspeed_experts" in name:
            parameter.mul_(1 + dist.get_rank())
groups = split_params_into_different_moe_groups_for_optimizer({"params": list(model.parameters()), "name": "all"})
config = {"train_batch_size": 3, "train_micro_batch_size_per_gpu": 1, "zero_optimization": {"stage": 1}, "bf16": {"enabled": True}}
engine, *_ = deepspeed.initialize(model=model, optimizer=torch.optim.AdamW(groups, lr=1e-3), config=config)
for _ in range(2):
    loss = engine(torch.randn(1, 8, 4, dtype=torch.bfloat16)).float().square().mean()
    engine.backward(loss)
    engine.step()
engine.save_checkpoint(sys.argv[1])
