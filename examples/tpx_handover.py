# SPDX-License-Identifier: Apache-2.0
"""Hands training state from process to process of a host through memory, with `tpx hold`; needs PyTorch, and tpx_keeper.py beside it.

    from tpx_handover import attach, export

attach("job", rank).load(state_dict) takes the shards of a rank from a keeper (`tpx hold CKPT --name job`, `tpx reshard ... --hold 300`).
export(state_dict, "live", rank, ranks, step) leaves a copy of them to a keeper (`tpx hold --name live --empty`); other programs read
hold:live as a checkpoint, also after this process has ended. Both raise HandoverError. tpx-hold(1) describes the documents."""
import io
import math
import zlib

import torch
from torch.distributed.checkpoint._nested_dict import flatten_state_dict
from torch.distributed.checkpoint._traverse import set_element
from torch.distributed.tensor import DTensor
from torch.distributed.tensor._utils import compute_local_shape_and_global_offset

from tpx_keeper import HandoverError, Keeper

ALIGNMENT = 64  # bytes


class Held:
    """State of a rank: `tensors` maps (name, first index in the whole tensor) to shards, `shapes` names to shapes of whole tensors,
    `objects` names to bytes of torch.save. The keeper keeps its copy until load(), state_dict() or taken() returns."""

    def __init__(self, document, memory, keeper):
        self.document, self.memory, self.keeper, self.tensors, self.shapes = document, memory, keeper, {}, {}
        for one in document["tensors"]:
            shard = view(memory.bytes, one["offset"], getattr(torch, one["dtype"]), one["sizes"])
            self.tensors[one["name"], tuple(one["begin"])] = shard
            self.shapes[one["name"]] = tuple(one["shape"])
        self.objects = {one["name"]: memory.raw[one["offset"] : one["offset"] + one["length"]] for one in document["objects"]}

    def check(self):
        """Raises HandoverError if a tensor has another CRC-32 than when it was held."""
        at = self.document.get("crcs")
        for (name, _), shard in self.tensors.items() if at is not None else ():
            crc = int.from_bytes(self.memory.raw[at : at + 4], "little")
            if zlib.crc32(shard.reshape(-1).view(torch.uint8).cpu().numpy()) != crc:
                raise self.keeper.error(f"rank {self.document['rank']}: checksum of '{name}' differs; load the checkpoint from disk")
            at += 4

    def taken(self):
        """Tells the keeper to free this state. Mapped tensors in memory of the host stay valid, also after the keeper has ended."""
        if self.keeper:
            if self.memory.place:  # memory of a GPU ends with the keeper
                self.tensors = {}
                self.memory.close()
            self.keeper.request({"op": "done"}, may_end=True)
        self.keeper = None

    def value(self, name):
        try:
            return torch.load(io.BytesIO(self.objects[name]), weights_only=False)  # as in dcp.load()
        except Exception as error:
            raise HandoverError(f"'{name}': {error}") from error

    def state_dict(self):
        """The state dict that was saved, with this rank's shards in place of whole tensors."""
        state = {}
        for one in self.document["tensors"]:
            shard = self.tensors[one["name"], tuple(one["begin"])]
            set_element(state, tuple(one.get("path", [one["name"]])), shard.clone() if self.memory.place else shard)
        for one in self.document["objects"]:
            set_element(state, tuple(one.get("path", [one["name"]])), self.value(one["name"]))
        self.taken()
        return state

    def load(self, state_dict):
        """Fills the tensors of `state_dict`, and replaces its other values. If a value is missing, raises HandoverError and changes
        nothing."""
        (flat, paths), shards, values = flatten_state_dict(state_dict), [], []
        for name, value in flat.items():
            if isinstance(value, torch.Tensor):
                (begin, local), whole = shard_of(value, name), tuple(value.shape)
                shard = self.tensors.get((name, begin)) if local.numel() else local
                if shard is None or self.shapes.get(name, whole) != whole or (shard.shape, shard.dtype) != (local.shape, local.dtype):
                    wanted = f"{local.dtype} shard of shape {list(local.shape)} at {list(begin)} of a tensor of shape {list(whole)}"
                    raise HandoverError(f"'{name}': no {wanted} is held; is this another layout?")
                shards.append((local, shard))
            elif name in self.objects:
                values.append((paths[name], self.value(name)))
            else:
                raise HandoverError(f"'{name}' is not held")
        for local, shard in shards:
            local.copy_(shard)
        for path, value in values:
            set_element(state_dict, path, value)
        self.taken()


def view(memory, offset, dtype, sizes):
    """The tensor at a byte of `memory`."""
    return memory[offset : offset + math.prod(sizes) * dtype.itemsize].view(dtype).view(sizes)


def shard_of(tensor, name=""):
    """What this rank has of a tensor: its first index in the whole tensor, and the local tensor."""
    if not isinstance(tensor, DTensor):
        return (0,) * tensor.dim(), tensor.detach()
    if any(placement.is_partial() for placement in tensor.placements):
        raise HandoverError(f"'{name}': consists of partial sums; call redistribute() first")
    _, begin = compute_local_shape_and_global_offset(tensor.shape, tensor.device_mesh, tensor.placements)
    return tuple(begin), tensor.detach().to_local()


def attach(name, rank, wait=60.0, verify=False):
    """Takes the state of `rank` from a keeper; waits for processes that use it. `verify`: checks CRC-32s."""
    keeper = Keeper(name, wait)
    held = Held(*keeper.take(rank), keeper)
    if verify:
        held.check()
    return held


def export(state_dict, name, rank, ranks, iteration, job="", layout="", device="cpu"):
    """Leaves a copy of this rank's state to a keeper, in place of an earlier one, which stays if this process is killed meanwhile.
    `device`: where the copy of the tensors is, such as tensor.device; a GPU needs memory for it beside the earlier one."""
    keeper, (flat, paths) = Keeper(name), flatten_state_dict(state_dict)
    tensors, objects, sources, size = [], [], [], 0
    for key, value in flat.items():
        one = {"name": key, "path": list(paths[key]), "offset": size}
        if isinstance(value, torch.Tensor):
            begin, local = shard_of(value, key)
            tensors.append(one | {"dtype": str(value.dtype)[6:], "shape": value.shape, "begin": begin, "sizes": local.shape})
        else:
            torch.save(value, file := io.BytesIO())
            local = torch.frombuffer(bytearray(file.getvalue()), dtype=torch.uint8)
            objects.append(one | {"length": local.numel()})
        sources.append((size, local, isinstance(value, torch.Tensor)))
        size += -(-local.nbytes // ALIGNMENT) * ALIGNMENT
    memory = keeper.allocate(size, torch.device(device))
    for offset, local, is_tensor in sources:
        targets = [memory.bytes]
        if memory.place and not is_tensor:  # objects are in both
            targets.append(memory.host)
        for target in targets:
            view(target, offset, local.dtype, local.shape).copy_(local)
    about = {"rank": rank, "ranks": ranks, "iteration": iteration, "job": job, "layout": layout}
    keeper.put(about | {"size": size, "tensors": tensors, "objects": objects}, memory)
