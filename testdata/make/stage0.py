#!/usr/bin/env python3
"""What DeepSpeed writes without ZeRO: python3 -P testdata/make/stage0.py testdata/deepspeed/stage0 (DeepSpeed 0.19.8, one rank)

Two steps of AdamW on two linear layers of different shapes, in single precision or, with a second argument bf16, in
bfloat16 with master weights (FP16_UnfusedOptimizer). With a third argument fused, the optimizer is FusedAdam, whose state
of each group is one vector (FP16_Optimizer). All is in one file of torch.save, with the optimizer by number.
Values depend on the seed only.
"""
import os
import sys

os.environ.update(DS_ACCELERATOR="cpu", RANK="0", LOCAL_RANK="0", WORLD_SIZE="1", MASTER_ADDR="127.0.0.1", MASTER_PORT="29741")
import deepspeed
import torch
from torch import nn

torch.manual_seed(3)
model = nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 5))
groups = [{"params": [p for p in model.parameters() if p.ndim > 1], "weight_decay": 0.1},
          {"params": [p for p in model.parameters() if p.ndim < 2], "weight_decay": 0.0}]
config = {"train_batch_size": 2, "train_micro_batch_size_per_gpu": 2, "zero_optimization": {"stage": 0}}
dtype = torch.float32
if sys.argv[2:3] == ["bf16"]:
    config["bf16"] = {"enabled": True}
    dtype = torch.bfloat16
kind = deepspeed.ops.adam.FusedAdam if sys.argv[3:] == ["fused"] else torch.optim.AdamW
engine, *_ = deepspeed.initialize(model=model, optimizer=kind(groups, lr=1e-3), config=config)
for _ in range(2):
    loss = engine(torch.randn(2, 3).to(dtype)).float().square().mean()
    engine.backward(loss)
    engine.step()
engine.save_checkpoint(sys.argv[1])
