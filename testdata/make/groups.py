#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checkpoints of linear layers after two steps: python3 -P testdata/make/groups.py testdata/training

groups.pt: three layers in a torch.save file with AdamW in four groups: vectors without weight decay first, a matrix with another learning
rate, and two matrices with equal settings. dcp-lion: a layer in PyTorch DCP with Lion, whose state has no exp_avg_sq, as
get_state_dict flattens it. Values depend on the seed only.
"""
import sys
from pathlib import Path

import torch
import torch.distributed.checkpoint as dcp
from torch import nn
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_state_dict


class Lion(torch.optim.Optimizer):
    """As in "Symbolic Discovery of Optimization Algorithms"."""

    def __init__(self, params):
        super().__init__(params, {"lr": 1e-3, "betas": (0.9, 0.99), "weight_decay": 0.1})

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            first, second = group["betas"]
            for parameter in group["params"]:
                if parameter.grad is None:
                    continue
                moment = self.state[parameter].setdefault("exp_avg", torch.zeros_like(parameter))
                parameter.mul_(1 - group["lr"] * group["weight_decay"])
                parameter.add_(torch.sign(moment * first + parameter.grad * (1 - first)), alpha=-group["lr"])
                moment.mul_(second).add_(parameter.grad, alpha=1 - second)


def train(layers, make_optimizer):
    torch.manual_seed(5)
    model = nn.Sequential(*[nn.Linear(3 + k, 4 + k) for k in range(layers)])
    optimizer = make_optimizer(model)
    for _ in range(2):
        optimizer.zero_grad()
        model(torch.randn(2, 3)).square().mean().backward()
        optimizer.step()
    return model, optimizer


def four_groups(model):
    vectors = [p for p in model.parameters() if p.ndim < 2]
    matrices = [p for p in model.parameters() if p.ndim > 1]
    return torch.optim.AdamW([{"params": vectors, "weight_decay": 0.0}, {"params": matrices[:1], "weight_decay": 0.1, "lr": 2e-3},
                              {"params": matrices[1:2], "weight_decay": 0.1}, {"params": matrices[2:], "weight_decay": 0.1}], lr=1e-3)  # fmt: skip


def main():
    out = Path(sys.argv[1])
    model, optimizer = train(3, four_groups)
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, out / "groups.pt")
    model, optimizer = train(1, lambda m: Lion(m.parameters()))
    weights, state = get_state_dict(model, optimizer, options=StateDictOptions(flatten_optimizer_state_dict=True))
    dcp.save({"model": weights, "optimizer": state}, checkpoint_id=out / "dcp-lion", no_dist=True)


if __name__ == "__main__":
    main()
