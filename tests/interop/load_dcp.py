# SPDX-License-Identifier: Apache-2.0
"""Loads a directory with PyTorch's own distributed checkpoint library."""
import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint import DefaultLoadPlanner, FileSystemReader
from torch.distributed.checkpoint.metadata import TensorStorageMetadata
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Replicate, Shard, zeros

from digests import differences, entry
from ranks import on_ranks


def _load(directory, state):
    planner = DefaultLoadPlanner(flatten_state_dict=False, flatten_sharded_tensors=False)
    dcp.load(state, storage_reader=FileSystemReader(directory), planner=planner)


def _plain(value):
    """The value after a round trip through JSON."""
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    return value


def _sharded(metadata, placements, mesh):
    return {
        name: zeros(item.size, dtype=item.properties.dtype, device_mesh=mesh, placements=placements)
        for name, item in metadata.items() if len(item.size) >= 1 + max(p.dim for p in placements if p.is_shard())
    }  # fmt: skip


def _on_rank(directory, mesh_shape):
    """Entries of all tensors read as a whole, the objects, and for each way to shard, the entries of tensors read that
    way."""
    metadata = FileSystemReader(directory).read_metadata().state_dict_metadata
    tensors = {name: item for name, item in metadata.items() if isinstance(item, TensorStorageMetadata)}
    whole = {name: torch.empty(item.size, dtype=item.properties.dtype) for name, item in tensors.items()}
    objects = {name: None for name in metadata.keys() - tensors.keys()}
    both = {**whole, **objects}
    _load(directory, both)

    found = {"whole": {name: entry(both[name]) for name in whole}}
    if dist.get_world_size() > 1:
        mesh = init_device_mesh("cpu", mesh_shape)
        last = [Replicate()] * (len(mesh_shape) - 1)
        for label, placements in {
            "rows": last + [Shard(0)],
            "columns": last + [Shard(1)],
            "grid": [Shard(0), Shard(1)] if len(mesh_shape) == 2 else [Shard(0)],
        }.items():
            state = _sharded(tensors, placements, mesh)
            _load(directory, state)
            found[label] = {name: entry(tensor.full_tensor()) for name, tensor in state.items()}
    return found, {name: _plain(both[name]) for name in objects}


def check(directory, digests, mesh_shape=(1,)):
    """Faults found when ranks of this mesh read `directory`: every tensor as a whole, and in DTensor shards."""
    expected = {**digests["tensors"], **digests.get("optimizer", {})}
    faults = []
    for rank, (found, objects) in enumerate(on_ranks(torch.Size(mesh_shape).numel(), _on_rank, directory, tuple(mesh_shape))):
        for label, entries in found.items():
            of_these = expected if label == "whole" else {n: e for n, e in expected.items() if n in entries}
            faults += [f"rank {rank}, {label}: {line}" for line in differences(entries, of_these)]
        for name, value in digests.get("other", {}).get("objects", {}).items():
            if objects.get(name) != value and not isinstance(value, dict):
                faults.append(f"rank {rank}: object {name}: {objects.get(name)!r} instead of {value!r}")
    return faults
