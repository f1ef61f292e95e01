#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes testdata/training: `python3 -P training.py OUT` (torch >= 2.6, CPU, gloo).

One state after three steps of AdamW, a Llama of one layer with torchtitan's names, in the files that training scripts
leave: state by number with matrices and vectors in groups of their own and torch.compile's prefix (numbered.pt), as
Lightning nests it (lightning.ckpt), by name (named.pt; with tensors of the script's own, extras.pt), with param_names
in the groups (param-names.pt), and as a DCP checkpoint (dcp), also below another key, as an application's state (dcp-
app), and, by number, of two ranks of FSDP2 (dcp-numbered); and as DCP of a model with Hugging Face's names and an output
layer tied to the embedding, by number (dcp-tied) and by flattened names (dcp-hf). With these names, but not tied, as an attribute of a
LightningModule, whose learning rate is a tensor (lightning-hf.ckpt); a model of no family with NAdam, flattened (dcp-toy)
and by number (tensor-lr.pt), and another with Rprop, which keeps two things of each parameter (rprop.pt). A generator and a
discriminator with an optimizer each, AdamW and SGD (two-optimizers.pt). In unclear.pt and dcp-unclear two orders of the
parameters fit the shapes. Values depend on seed and name only.
"""
import copy
import os
import sys
import zlib
from pathlib import Path

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
import torch.multiprocessing as processes
from torch import nn
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import Shard, distribute_tensor

HIDDEN, KV, FFN, VOCAB = 8, 4, 6, 10


class Parts(nn.Module):
    """A module of named parts that is never run."""

    def __init__(self, parts):
        super().__init__()
        for name, part in parts.items():
            self.add_module(name, part)


def linear(rows, columns):
    return nn.Linear(columns, rows, bias=False)


def llama():
    attention = Parts({"wq": linear(HIDDEN, HIDDEN), "wk": linear(KV, HIDDEN), "wv": linear(KV, HIDDEN), "wo": linear(HIDDEN, HIDDEN)})
    feed_forward = Parts({"w1": linear(FFN, HIDDEN), "w2": linear(HIDDEN, FFN), "w3": linear(FFN, HIDDEN)})
    norms = {name: nn.RMSNorm(HIDDEN) for name in ("attention_norm", "ffn_norm")}
    layers = Parts({"0": Parts({"attention": attention, "feed_forward": feed_forward, **norms})})
    model = Parts({"tok_embeddings": nn.Embedding(VOCAB, HIDDEN), "layers": layers, "norm": nn.RMSNorm(HIDDEN), "output": linear(VOCAB, HIDDEN)})
    for name, parameter in model.named_parameters():
        torch.manual_seed(zlib.crc32(name.encode()))
        parameter.data = torch.randn_like(parameter) * 0.1
    return model


def hf_llama(tied):
    """The same with the names of Hugging Face, and an output layer that may be the embedding."""
    attention = Parts({"q_proj": linear(HIDDEN, HIDDEN), "k_proj": linear(KV, HIDDEN), "v_proj": linear(KV, HIDDEN), "o_proj": linear(HIDDEN, HIDDEN)})
    mlp = Parts({"gate_proj": linear(FFN, HIDDEN), "up_proj": linear(FFN, HIDDEN), "down_proj": linear(HIDDEN, FFN)})
    norms = {name: nn.RMSNorm(HIDDEN) for name in ("input_layernorm", "post_attention_layernorm")}
    layers = Parts({"0": Parts({"self_attn": attention, "mlp": mlp, **norms})})
    inner = Parts({"embed_tokens": nn.Embedding(VOCAB, HIDDEN), "layers": layers, "norm": nn.RMSNorm(HIDDEN)})
    model = Parts({"model": inner, "lm_head": linear(VOCAB, HIDDEN)})
    if tied:
        model.lm_head.weight = inner.embed_tokens.weight
    for name, parameter in model.named_parameters():
        torch.manual_seed(zlib.crc32(name.encode()))
        parameter.data = torch.randn_like(parameter) * 0.1
    return model


def train(model, optimizer, mesh=None):
    for step in range(3):
        for name, parameter in model.named_parameters():
            torch.manual_seed(zlib.crc32(f"{step} {name}".encode()))
            gradient = torch.randn(parameter.shape)
            parameter.grad = gradient if mesh is None else distribute_tensor(gradient, mesh, [Shard(0)])
        optimizer.step()
    return model, optimizer


def by_axes(model):
    named = dict(model.named_parameters())
    return [{"params": [p for p in named.values() if p.dim() > 1], "weight_decay": 0.1},
            {"params": [p for p in named.values() if p.dim() < 2], "weight_decay": 0.0}]


def adam(groups):
    return torch.optim.AdamW(groups, lr=1e-3, betas=(0.9, 0.95), eps=1e-8, foreach=False)


def numbered_on_rank(rank, ranks, out):
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29611", "RANK": str(rank), "WORLD_SIZE": str(ranks)}
    dist.init_process_group("gloo")
    mesh = init_device_mesh("cpu", (ranks,))
    model = llama()
    fully_shard(model, mesh=mesh)
    model, optimizer = train(model, adam(by_axes(model)), mesh)
    dcp.save({"model": model.state_dict(), "optim": optimizer.state_dict()}, checkpoint_id=out)
    dist.destroy_process_group()


def adversaries():
    """Two models whose optimizers have settings of different kinds."""
    nets = {"generator": nn.Linear(3, 2), "discriminator": nn.Linear(2, 1)}
    for name, net in nets.items():
        for key, parameter in net.named_parameters():
            torch.manual_seed(zlib.crc32(f"{name} {key}".encode()))
            parameter.data = torch.randn_like(parameter)
    _, opt_g = train(nets["generator"], torch.optim.AdamW(nets["generator"].parameters(), lr=0.01, foreach=False))
    _, opt_d = train(nets["discriminator"], torch.optim.SGD(by_axes(nets["discriminator"]), lr=0.02, momentum=0.75, foreach=False))
    return {**{name: net.state_dict() for name, net in nets.items()}, "opt_g": opt_g.state_dict(), "opt_d": opt_d.state_dict()}


def main():
    out = Path(sys.argv[1])
    out.mkdir(parents=True, exist_ok=True)
    model, optimizer = train(*(lambda m: (m, adam(by_axes(m))))(llama()))
    weights, numbered = dict(model.state_dict()), optimizer.state_dict()
    arguments = {"n_layer": 1, "n_head": 4, "n_embd": HIDDEN}
    compiled = {f"_orig_mod.{name}": tensor for name, tensor in weights.items()}
    torch.save({"model": compiled, "optimizer": numbered, "model_args": arguments, "iter_num": 3}, out / "numbered.pt")
    torch.save({"epoch": 1, "global_step": 3, "state_dict": weights, "optimizer_states": [numbered], "lr_schedulers": []}, out / "lightning.ckpt")
    model_state, optimizer_state = get_state_dict(model, optimizer)
    torch.save({"model": model_state, "optimizer": optimizer_state}, out / "named.pt")
    torch.save({"model": model_state, "optimizer": optimizer_state, "seen": torch.tensor(3), "running": torch.ones(5)},
               out / "extras.pt")
    dcp.save({"model": model_state, "optim": optimizer_state}, checkpoint_id=out / "dcp", no_dist=True)
    dcp.save({"app": {"model": model_state, "optim": optimizer_state}, "step": 3}, checkpoint_id=out / "dcp-app", no_dist=True)
    processes.spawn(numbered_on_rank, (2, out / "dcp-numbered"), nprocs=2)

    twin, its_adam = train(*(lambda m: (m, adam(by_axes(m))))(hf_llama(tied=True)))
    dcp.save({"model": twin.state_dict(), "optim": its_adam.state_dict()}, checkpoint_id=out / "dcp-tied", no_dist=True)
    flat = StateDictOptions(flatten_optimizer_state_dict=True)
    model_state, optimizer_state = get_state_dict(twin, its_adam, options=flat)
    told = (".lr", ".betas", ".eps", ".weight_decay")  # the others take place and say nothing
    optimizer_state = {k: v for k, v in optimizer_state.items() if k.startswith("state.") or k.endswith(told)}
    dcp.save({"model": model_state, "optimizer": optimizer_state}, checkpoint_id=out / "dcp-hf", no_dist=True)

    hf, optimizer = train(*(lambda m: (m, torch.optim.AdamW(by_axes(m), lr=torch.tensor(2e-3), foreach=False)))(hf_llama(tied=False)))
    below = {f"model.{name}": tensor for name, tensor in hf.state_dict().items()}
    torch.save({"epoch": 1, "state_dict": below, "optimizer_states": [optimizer.state_dict()]}, out / "lightning-hf.ckpt")
    toy = nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2))
    toy, optimizer = train(toy, torch.optim.NAdam(by_axes(toy), lr=torch.tensor(1e-3), foreach=False))
    toy_state, optimizer_state = get_state_dict(toy, optimizer, options=flat)
    dcp.save({"model": toy_state, "optim": optimizer_state}, checkpoint_id=out / "dcp-toy", no_dist=True)
    torch.save({"model": toy_state, "optim": optimizer.state_dict()}, out / "tensor-lr.pt")
    twin = nn.Sequential(nn.Linear(3, 2), nn.Linear(2, 5))
    twin, optimizer = train(twin, torch.optim.Rprop(twin.parameters()))
    torch.save({"model": twin.state_dict(), "optim": optimizer.state_dict()}, out / "rprop.pt")

    torch.save(adversaries(), out / "two-optimizers.pt")

    named = llama()
    groups = by_axes(named)
    names = {id(p): name for name, p in named.named_parameters()}
    for group in groups:
        group["params"] = [(names[id(p)], p) for p in reversed(group["params"])]
    named, by_name = train(named, adam(groups))
    torch.save({"model_state_dict": named.state_dict(), "optimizer_state_dict": by_name.state_dict()}, out / "param-names.pt")

    unclear = copy.deepcopy(numbered)
    unclear["param_groups"][0]["params"].append(unclear["param_groups"][1]["params"].pop())
    torch.save({"model": weights, "optimizer": unclear}, out / "unclear.pt")

    squares = Parts({name: linear(2, 2) for name in "ab"})
    squares, optimizer = train(squares, adam([{"params": [p]} for p in reversed(list(squares.parameters()))]))
    state = {"model": squares.state_dict(), "optim": optimizer.state_dict()}
    dcp.save(state, checkpoint_id=out / "dcp-unclear", no_dist=True)


if __name__ == "__main__":
    main()
