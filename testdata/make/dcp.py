#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes testdata/dcp/fsdp2-tp2 and the JSON file beside it: `python3 dcp.py OUT` (torch >= 2.6, CPU, four processes).

A Llama of two layers with torchtitan's names, sharded over a mesh of fsdp 2 x tp 2 and saved by PyTorch's DCP. Row
counts are chosen so that fsdp cuts unevenly inside what tp cut. Values depend on seed and name only.
"""
import hashlib
import json
import os
import sys
import tempfile
import zlib

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
import torch.multiprocessing as mp
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

SIZES = {"layers": 2, "hidden": 8, "heads": 4, "kv_heads": 2, "ffn": 10, "vocab": 14}
STEP = torch.tensor(7)


class Parts(nn.Module):
    """A module of named parts that is never run."""

    def __init__(self, parts):
        super().__init__()
        for name, part in parts.items():
            self.add_module(name, part)

    def forward(self):
        raise NotImplementedError


def linear(rows, columns):
    return nn.Linear(columns, rows, bias=False)


def block(hidden, kv, ffn):
    attention = Parts({"wq": linear(hidden, hidden), "wk": linear(kv, hidden), "wv": linear(kv, hidden), "wo": linear(hidden, hidden)})
    feed_forward = Parts({"w1": linear(ffn, hidden), "w2": linear(hidden, ffn), "w3": linear(ffn, hidden)})
    norms = {name: nn.RMSNorm(hidden) for name in ("attention_norm", "ffn_norm")}
    return Parts({"attention": attention, "feed_forward": feed_forward, **norms})


def llama():
    hidden, kv = SIZES["hidden"], SIZES["hidden"] // SIZES["heads"] * SIZES["kv_heads"]
    layers = Parts({str(i): block(hidden, kv, SIZES["ffn"]) for i in range(SIZES["layers"])})
    model = Parts({"tok_embeddings": nn.Embedding(SIZES["vocab"], hidden), "layers": layers, "norm": nn.RMSNorm(hidden), "output": linear(SIZES["vocab"], hidden)})
    for name, parameter in model.named_parameters():
        torch.manual_seed(zlib.crc32(name.encode()))
        parameter.data = torch.randn_like(parameter) * 0.1
    return model.to(torch.bfloat16)


def describe(model):
    def entry(tensor):
        data = tensor.detach().reshape(-1).view(torch.uint8).numpy().tobytes()
        return {"dtype": {torch.bfloat16: "bf16", torch.int64: "i64"}[tensor.dtype], "shape": list(tensor.shape), "sha256": hashlib.sha256(data).hexdigest()}

    layout = {"mesh": {"fsdp": 2, "tp": 2}, "written_by": f"torch {torch.__version__}"}
    return {"model": SIZES, "layout": layout, "tensors": {name: entry(t) for name, t in (*model.named_parameters(), ("train_state.step", STEP))}}


def run(rank, out, store):
    dist.init_process_group("gloo", init_method="file://" + store, rank=rank, world_size=4)
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("fsdp", "tp"))
    model = llama()
    if rank == 0:
        with open(os.path.join(out, "fsdp2-tp2.json"), "w") as file:
            json.dump(describe(model), file, indent=1)
            file.write("\n")
    columns = ("attention.wq", "attention.wk", "attention.wv", "feed_forward.w1", "feed_forward.w3")
    rows = ("attention.wo", "feed_forward.w2")
    for layer in model.layers.children():
        parallelize_module(layer, mesh["tp"], {**{n: ColwiseParallel() for n in columns}, **{n: RowwiseParallel() for n in rows}})
        fully_shard(layer, mesh=mesh["fsdp"])
    parallelize_module(model, mesh["tp"], {"tok_embeddings": RowwiseParallel(), "output": ColwiseParallel()})
    fully_shard(model, mesh=mesh["fsdp"])
    state = {**model.state_dict(), "train_state": {"step": STEP, "lr": 0.001, "files": ["part-0", "part-1"]}}
    os.chdir(out)  # .metadata remembers the path as it was given
    dcp.save(state, checkpoint_id="fsdp2-tp2")
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    out = os.path.abspath(sys.argv[1])
    os.makedirs(out, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        mp.spawn(run, (out, os.path.join(folder, "store")), nprocs=4)
