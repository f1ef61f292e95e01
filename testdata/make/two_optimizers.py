#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Two linear layers after two steps of Muon for matrices and of AdamW for vectors, as PyTorch DCP stores both optimizers
with parameters' names: python3 -P testdata/make/two_optimizers.py testdata/training

Values depend on the seed only.
"""
import sys
from pathlib import Path

import torch
import torch.distributed.checkpoint as dcp
from torch import nn
from torch.distributed.checkpoint.state_dict import get_model_state_dict, get_optimizer_state_dict


def main():
    torch.manual_seed(6)
    model = nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 5))
    muon = torch.optim.Muon([p for p in model.parameters() if p.ndim > 1], lr=0.02)
    adamw = torch.optim.AdamW([p for p in model.parameters() if p.ndim < 2], lr=1e-3)
    for _ in range(2):
        model(torch.randn(2, 3)).square().mean().backward()
        for optimizer in (muon, adamw):
            optimizer.step()
            optimizer.zero_grad()
    state = {"model": get_model_state_dict(model), "muon": get_optimizer_state_dict(model, muon),
             "adamw": get_optimizer_state_dict(model, adamw)}  # fmt: skip
    dcp.save(state, checkpoint_id=Path(sys.argv[1], "dcp-muon"), no_dist=True)


if __name__ == "__main__":
    main()
