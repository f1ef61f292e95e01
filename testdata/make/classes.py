#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes testdata/torch/classes: `python3 -P classes.py OUT` (torch >= 2.6, CPU, gloo).

Tensors of classes of their own: own.pt has one that holds its elements itself, a buffer and a plain tensor; the others
have one that tpx refuses, for the reason in the file's name.
"""
import sys
from pathlib import Path

import torch
import torch.distributed as dist
from torch.distributed.tensor import Shard, distribute_tensor, init_device_mesh


class Own(torch.Tensor):
    pass


class Quantised(torch.Tensor):
    """As torchao has them: its elements are made of other tensors."""

    @staticmethod
    def __new__(cls, data, scale):
        return torch.Tensor._make_wrapper_subclass(cls, data.shape, dtype=torch.float32)

    def __init__(self, data, scale):
        self.data_, self.scale = data, scale

    @classmethod
    def __torch_dispatch__(cls, function, types, args=(), more=None):
        raise NotImplementedError(function)


def main():
    out = Path(sys.argv[1])
    out.mkdir(parents=True, exist_ok=True)
    plain = torch.arange(6.0).reshape(2, 3)
    own = plain.clone().as_subclass(Own)
    own.unit = "m"
    torch.save({"own": own, "buffer": torch.nn.Buffer(plain + 1, persistent=False), "plain": plain}, out / "own.pt")
    torch.save({"w": Quantised(torch.ones(2, 3, dtype=torch.int8), torch.tensor(0.5))}, out / "wrapper.pt")
    torch.save({"w": plain.to_sparse()}, out / "sparse.pt")
    torch.save({"w": torch.nested.nested_tensor([plain, plain[:1]])}, out / "nested.pt")
    torch.save({"w": torch.empty(2, 3, device="meta")}, out / "meta.pt")
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    torch.save({"w": distribute_tensor(plain, init_device_mesh("cpu", (1,)), [Shard(0)])}, out / "dtensor.pt")


if __name__ == "__main__":
    main()
