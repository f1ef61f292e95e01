#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""train.py MODE STEPS SAVED LOSSES: runs one rank that trains a small Llama for STEPS steps with PyTorch on the CPU. It loads its
state from $TPX_STATE, or from hold:$TPX_HELD if that is set, and saves its part of the new state in SAVED, a local folder of the
host. `tpx migrate --json` prints the environment of each rank. Rank 0 appends a line to LOSSES for each step.

Each virtual node draws its dropout masks from its own stream of random numbers. The stream is part of the state: the checkpoint
stores it as virtual_node_state.N.rng, and tpx moves it with its virtual node.

MODE ddp: every rank has the whole model. The gradients of the virtual nodes are added as integers, whose sum does not depend on
the order, so the losses have the same bits on any number of ranks. MODE sharded: FSDP2, and tensor parallelism if TPX_TP > 1.
MODE pipelined: the same, and pipeline parallelism if TPX_PP > 1, without dropout, whose masks would depend on the stages.

`train.py init SAVED NODES` saves the state of a job with NODES virtual nodes before the first step."""
import json
import os
import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
import torch.nn.functional as F
from torch import nn
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_state_dict, set_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import Replicate
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from elastic_sampler import DataPosition
from tpx_handover import attach

WORDS, WIDTH, HIDDEN, LAYERS, HEAD, LENGTH, DROPOUT = 64, 64, 128, 2, 16, 32, 0.1
ONE = 2.0**40  # the factor by which gradients are multiplied before they are rounded to integers
BY_NAME = StateDictOptions(flatten_optimizer_state_dict=True)  # a stage lacks parameters of other stages


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.wq, self.wk, self.wv, self.wo = (nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(4))

    def forward(self, x):
        q, k, v = (w(x).unflatten(-1, (-1, HEAD)).transpose(1, 2) for w in (self.wq, self.wk, self.wv))
        return self.wo(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2))


class FeedForward(nn.Module):
    def __init__(self):
        super().__init__()
        self.w1, self.w3 = nn.Linear(WIDTH, HIDDEN, bias=False), nn.Linear(WIDTH, HIDDEN, bias=False)
        self.w2 = nn.Linear(HIDDEN, WIDTH, bias=False)

    def forward(self, x):
        return self.w2(F.silu(self.w1(x)) * self.w3(x))


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention, self.feed_forward = Attention(), FeedForward()
        self.attention_norm, self.ffn_norm = nn.RMSNorm(WIDTH), nn.RMSNorm(WIDTH)

    def forward(self, x):
        x = x + F.dropout(self.attention(self.attention_norm(x)), DROPOUT)
        return x + F.dropout(self.feed_forward(self.ffn_norm(x)), DROPOUT)


class Llama(nn.Module):
    """Parameters have torchtitan's names, so that tpx knows how tensor parallelism splits them."""

    def __init__(self):
        super().__init__()
        self.tok_embeddings = nn.Embedding(WORDS, WIDTH)
        self.layers = nn.ModuleDict({str(k): Layer() for k in range(LAYERS)})
        self.norm, self.output = nn.RMSNorm(WIDTH), nn.Linear(WIDTH, WORDS, bias=False)

    def keep_stage(self, stage, stages):
        """Keeps the layers of a pipeline stage; the first stage also keeps the embedding, the last one norm and output layer."""
        for number in range(LAYERS):
            if number * stages // LAYERS != stage:
                del self.layers[str(number)]
        if stage > 0:
            self.tok_embeddings = None
        if stage < stages - 1:
            self.norm = self.output = None

    def forward(self, x):
        """x: word indices, or the output of the previous stage."""
        x = x if self.tok_embeddings is None else self.tok_embeddings(x)
        for layer in self.layers.values():
            x = layer(x)
        return x if self.output is None else self.output(self.norm(x))


def parallelize(model, tp, dp, pp=1):
    mesh = init_device_mesh("cpu", (pp, dp, tp), mesh_dim_names=("pp", "dp", "tp"))
    if pp > 1:
        model.keep_stage(mesh.get_local_rank("pp"), pp)
    if tp > 1:
        split = {f"attention.w{name}": ColwiseParallel() for name in "qkv"} | {"attention.wo": RowwiseParallel()}
        split |= {"feed_forward.w1": ColwiseParallel(), "feed_forward.w3": ColwiseParallel(), "feed_forward.w2": RowwiseParallel()}
        for layer in model.layers.values():
            parallelize_module(layer, mesh["tp"], split)
        ends = {"tok_embeddings": RowwiseParallel(input_layouts=Replicate()), "output": ColwiseParallel(output_layouts=Replicate())}
        parallelize_module(model, mesh["tp"], {name: split for name, split in ends.items() if getattr(model, name) is not None})
    for layer in model.layers.values():
        fully_shard(layer, mesh=mesh["dp"])
    fully_shard(model, mesh=mesh["dp"])


def sequence(sample):
    """A sequence of the data set: a rule that the model learns computes each word from the previous word."""
    words = [sample % WORDS]
    for _ in range(LENGTH):
        words.append((5 * words[-1] + 3 + (sample >> 6) % 3) % WORDS)
    return torch.tensor(words)


def words_of(samples):
    words = torch.stack([sequence(sample) for sample in samples])
    return words[:, :-1], words[:, 1:].flatten()


def loss_of(model, samples, stream):
    """The loss of the samples of a virtual node. `stream` is the state of its random number generator, which is advanced."""
    torch.set_rng_state(stream)
    words, targets = words_of(samples)
    loss = F.cross_entropy(model(words).flatten(0, 1), targets)
    stream.copy_(torch.get_rng_state())
    return loss


def step_ddp(model, nodes, streams, count):
    """Gradients and loss of a global batch. `nodes` are the virtual nodes of this rank, out of `count` in total."""
    parameters = list(model.parameters())
    sums = [torch.zeros(p.shape, dtype=torch.int64) for p in [*parameters, torch.zeros(())]]
    for node, samples in nodes:
        model.zero_grad()
        loss = loss_of(model, samples, streams[node])
        loss.backward()
        for total, value in zip(sums, [*(p.grad for p in parameters), loss.detach()]):
            total += (value.double() / count * ONE).round().long()
    for total in sums:
        dist.all_reduce(total)
    for parameter, total in zip(parameters, sums):
        parameter.grad = (total / ONE).float()
    return sums[-1].item() / ONE


def step_sharded(model, nodes, streams, count, dp, tp):
    mean = torch.zeros(())
    for number, (node, samples) in enumerate(nodes):
        model.set_requires_gradient_sync(number + 1 == len(nodes))
        loss = loss_of(model, samples, streams[node]) / count
        (loss * dp).backward()  # FSDP averages over the dp ranks
        mean += loss.detach()
    dist.all_reduce(mean)
    return mean.item() / tp


def step_pipelined(model, nodes, count, dp, tp):
    """The same with two or more stages: each receives its input from the previous stage, and its gradient from the next stage."""
    rank, near, mean = dist.get_rank(), dp * tp, torch.zeros(())
    for number, (_, samples) in enumerate(nodes):
        model.set_requires_gradient_sync(number + 1 == len(nodes))
        x, targets = words_of(samples)
        if model.tok_embeddings is None:
            dist.recv(x := torch.empty(*x.shape, WIDTH), rank - near)
            x.requires_grad_()
        y = model(x)
        if model.output is None:
            dist.send(y.detach().contiguous(), rank + near)
            dist.recv(gradient := torch.empty_like(y), rank + near)
            y.backward(gradient)
        else:
            loss = F.cross_entropy(y.flatten(0, 1), targets) / count
            (loss * dp).backward()
            mean += loss.detach()
        if model.tok_embeddings is None:
            dist.send(x.grad, rank - near)
    dist.all_reduce(mean)
    return mean.item() / tp


def new_streams(nodes):
    return {node: torch.Generator().manual_seed(node).get_state() for node in nodes}


def state_of(model, optimizer, streams):
    weights, state = get_state_dict(model, optimizer, options=BY_NAME)
    own = {str(node): {"rng": stream} for node, stream in streams.items()}
    return {"model": weights, "optimizer": state, "virtual_node_state": own}


def save(state, folder, position):
    """Each rank writes to its own host. .metadata, which only rank 0 writes, and the data position are copied to all hosts."""
    folder.mkdir(parents=True, exist_ok=True)
    dcp.save(state, checkpoint_id=folder)
    metadata = [(folder / ".metadata").read_bytes() if dist.get_rank() == 0 else None]
    dist.broadcast_object_list(metadata)
    if os.environ["LOCAL_RANK"] == "0":
        (folder / ".metadata").write_bytes(metadata[0])
        (folder / "tpx.data.json").write_text(json.dumps(position))


def load(state, rank):
    begin = time.perf_counter()
    if "TPX_HELD" in os.environ:
        attach(os.environ["TPX_HELD"], rank).load(state)
    else:
        dcp.load(state, checkpoint_id=os.environ["TPX_STATE"])
    if rank == 0:
        print(f"rank 0 loads its state in {1000 * (time.perf_counter() - begin):.1f} ms", flush=True)


def make():
    torch.manual_seed(1)
    return Llama()


def optimizer_of(model):
    return torch.optim.AdamW(model.parameters(), lr=3e-3, foreach=False)


def train(mode, steps, saved, losses):
    global DROPOUT
    rank, tp, pp = (int(os.environ[name]) for name in ("RANK", "TPX_TP", "TPX_PP"))
    dp = int(os.environ["WORLD_SIZE"]) // tp // pp
    model = make()
    if mode != "ddp":
        parallelize(model, tp, dp, pp)
    if mode == "pipelined":
        DROPOUT = 0.0
    optimizer = optimizer_of(model)
    position = DataPosition.read(os.environ["TPX_STATE"] + "/tpx.data.json")
    count = position.document["virtual_nodes"]
    streams = new_streams(node for node, _ in position.batch(0, rank))
    state = state_of(model, optimizer, streams)
    load(state, rank)
    set_state_dict(model, optimizer, model_state_dict=state["model"], optim_state_dict=state["optimizer"], options=BY_NAME)
    for step in range(steps):
        optimizer.zero_grad()
        nodes = list(position.batch(step, rank))
        if mode == "ddp":
            loss = step_ddp(model, nodes, streams, count)
        elif pp == 1:
            loss = step_sharded(model, nodes, streams, count, dp, tp)
        else:
            loss = step_pipelined(model, nodes, count, dp, tp)
        optimizer.step()
        if rank == 0:
            with losses.open("a") as log:
                print(position.consumed // position.global_batch + step, float(loss).hex(), file=log)
    save(state_of(model, optimizer, streams), saved, position.advanced(steps))


if __name__ == "__main__":
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    if sys.argv[1] == "init":
        dcp.save(state_of(model := make(), optimizer_of(model), new_streams(range(int(sys.argv[3])))), checkpoint_id=sys.argv[2])
        sys.exit()
    dist.init_process_group("gloo")
    train(sys.argv[1], int(sys.argv[2]), Path(sys.argv[3]), Path(sys.argv[4]))
    dist.barrier()
    dist.destroy_process_group()
    # Skip the interpreter's shutdown: threads of PyTorch that outlived it have crashed finished ranks ("terminate called").
    sys.stdout.flush()
    os._exit(0)
