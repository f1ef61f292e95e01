# SPDX-License-Identifier: Apache-2.0
"""lion.py OUT: two steps of Lion, which has exp_avg and no exp_avg_sq, under ZeRO 2 of three CPU ranks, saved by DeepSpeed. Run with
torchrun --nproc-per-node 3 and DS_ACCELERATOR=cpu."""
import sys

import deepspeed
import torch
from torch import nn


class Lion(torch.optim.Optimizer):
    def __init__(self, parameters, lr=1e-3, betas=(0.9, 0.99), weight_decay=0.01):
        super().__init__(parameters, {"lr": lr, "betas": betas, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            first, second = group["betas"]
            for parameter in (one for one in group["params"] if one.grad is not None):
                average = self.state[parameter].setdefault("exp_avg", torch.zeros_like(parameter))
                parameter.mul_(1 - group["lr"] * group["weight_decay"])
                parameter.add_(average.lerp(parameter.grad, 1 - first).sign_(), alpha=-group["lr"])
                average.lerp_(parameter.grad, 1 - second)


def main(out):
    deepspeed.init_distributed("gloo")
    torch.manual_seed(0)
    model = nn.Sequential(nn.Embedding(31, 14), nn.Linear(14, 23), nn.Tanh(), nn.Linear(23, 31, bias=False))
    config = {"train_micro_batch_size_per_gpu": 2, "zero_optimization": {"stage": 2}, "zero_allow_untested_optimizer": True, "bf16": {"enabled": True}}
    engine, *_ = deepspeed.initialize(model=model, optimizer=Lion(model.parameters()), config=config)
    for step in range(2):
        tokens = torch.randint(0, 31, (2, 5), generator=torch.Generator().manual_seed(step))
        loss = nn.functional.cross_entropy(engine(tokens).float().flatten(0, 1), tokens.flatten())
        engine.backward(loss)
        engine.step()
    engine.save_checkpoint(out)


main(sys.argv[1])
