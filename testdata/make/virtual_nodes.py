#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes testdata/dcp/virtual-nodes: `python3 -P virtual_nodes.py OUT` (torch >= 2.6, CPU, two processes).

A Llama of one layer with torchtitan's names under FSDP 2, and the state of four virtual nodes, of which each rank runs two: the
bytes of a text in place of the state of a random number generator, so that grep finds them, the statistics of a batch norm, a
counter, and a cursor, which is no tensor.
"""
import os
import sys

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
import torch.multiprocessing as mp
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Shard, distribute_tensor

RANKS, NODES, HIDDEN, FFN, VOCABULARY = 2, 4, 8, 12, 14


def shapes():
    found = {"tok_embeddings": (VOCABULARY, HIDDEN), "norm": (HIDDEN,), "output": (VOCABULARY, HIDDEN)}
    found |= {f"layers.0.attention.{name}": (HIDDEN, HIDDEN) for name in ("wq", "wk", "wv", "wo")}
    found |= {f"layers.0.feed_forward.{name}": (FFN, HIDDEN) for name in ("w1", "w3")}
    return found | {"layers.0.feed_forward.w2": (HIDDEN, FFN), "layers.0.attention_norm": (HIDDEN,), "layers.0.ffn_norm": (HIDDEN,)}


def state_of(node):
    draw = torch.Generator().manual_seed(node)
    statistics = {"running_mean": torch.randn(3, generator=draw), "num_batches_tracked": torch.tensor(10 + node)}
    stream = torch.tensor(list(f"stream of virtual node {node}".encode()), dtype=torch.uint8)
    return {"rng": stream, "bn": statistics, "cursor": {"file": f"part-{node}", "sample": 100 * node}}


def save(rank, folder):
    os.environ.update(RANK=str(rank), WORLD_SIZE=str(RANKS), MASTER_ADDR="127.0.0.1", MASTER_PORT="29511")
    dist.init_process_group("gloo")
    mesh = init_device_mesh("cpu", (RANKS,))
    torch.manual_seed(1)
    model = {f"{name}.weight": distribute_tensor(torch.randn(shape), mesh, [Shard(0)]) for name, shape in shapes().items()}
    own = range(rank * NODES // RANKS, (rank + 1) * NODES // RANKS)
    dcp.save({"model": model, "virtual_nodes": {str(node): state_of(node) for node in own}}, checkpoint_id=folder)
    dist.destroy_process_group()


if __name__ == "__main__":
    mp.spawn(save, args=(os.path.join(sys.argv[1], "virtual-nodes"),), nprocs=RANKS)
