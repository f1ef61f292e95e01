#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes testdata/training/asgd.pt and asgd: `python3 -P asgd.py OUT` (torch >= 2.6, CPU).

A Llama of one layer with Hugging Face names after two steps of ASGD, which keeps three tensors of each parameter besides its
step, in a torch.save file and as DCP. The order of these tensors differs, as it does between a whole state_dict and the same
under FSDP2, where those that are not sharded come last.
"""
import sys
from pathlib import Path

import torch
import torch.distributed.checkpoint as dcp

HIDDEN, FFN, VOCAB = 4, 6, 5
LAYER = {
    "self_attn.q_proj": (HIDDEN, HIDDEN), "self_attn.k_proj": (HIDDEN, HIDDEN), "self_attn.v_proj": (HIDDEN, HIDDEN),
    "self_attn.o_proj": (HIDDEN, HIDDEN), "mlp.gate_proj": (FFN, HIDDEN), "mlp.up_proj": (FFN, HIDDEN),
    "mlp.down_proj": (HIDDEN, FFN), "input_layernorm": (HIDDEN,), "post_attention_layernorm": (HIDDEN,),
}  # fmt: skip
SHAPES = {"model.embed_tokens.weight": (VOCAB, HIDDEN), **{f"model.layers.0.{name}.weight": shape for name, shape in LAYER.items()},
          "model.norm.weight": (HIDDEN,), "lm_head.weight": (VOCAB, HIDDEN)}  # fmt: skip


def main(out):
    generator = torch.Generator().manual_seed(4)
    model = {name: torch.nn.Parameter(torch.randn(shape, generator=generator)) for name, shape in SHAPES.items()}
    optimizer = torch.optim.ASGD(model.values(), lr=0.1, t0=0)
    for _ in range(2):
        for parameter in model.values():
            parameter.grad = torch.randn(parameter.shape, generator=generator)
        optimizer.step()
    numbered = optimizer.state_dict()
    names = list(model)
    groups = [{**group, "params": [names[number] for number in group["params"]]} for group in numbered["param_groups"]]
    for name, order in {"asgd.pt": ("step", "eta", "mu", "ax"), "asgd": ("ax", "step", "eta", "mu")}.items():
        state = {names[number]: {key: values[key] for key in order} for number, values in numbered["state"].items()}
        weights = {key: value.detach() for key, value in model.items()}
        saved = {"model": weights, "optimizer": {"state": state, "param_groups": groups}}
        if name == "asgd":
            dcp.save(saved, checkpoint_id=Path(out, name), no_dist=True)
        else:
            torch.save(saved, Path(out, name))


if __name__ == "__main__":
    main(sys.argv[1])
