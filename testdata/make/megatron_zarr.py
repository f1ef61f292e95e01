#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes testdata/megatron/zarr: `PYTHONPATH=MCORE:tests/interop python -P megatron_zarr.py OUT`, where MCORE is a folder with
megatron-core 0.15.3, the last one with the zarr backend; needs `zarr<3` and tensorstore.

A Llama of two layers in bf16 and Adam's state in f32 after ten steps on four CPU ranks (tp 2, pp 2), saved with the zarr
backend in OUT/zarr, and as torch_dist in OUT/twin, which is not kept. OUT/zarr.json has what Megatron-core reads from
OUT/zarr. The tensor "uneven" has a last chunk that is half full. Values depend on names only.
"""
import ctypes
import json
import multiprocessing
import multiprocessing.managers
import random
import sys
from pathlib import Path

import numpy as np
import torch
import torch.distributed as dist

import megatron_precision as precision
import megatron_steps as steps
from digests import entry
from ranks import on_ranks

from megatron.core import dist_checkpointing, parallel_state
from megatron.core.dist_checkpointing.mapping import ShardedObject, ShardedTensor
from megatron.core.dist_checkpointing.strategies import filesystem_async

MODEL = precision.MODEL | {"hidden": 8, "ffn": 8, "heads": 2, "kv_heads": 2, "kv_channels": 4, "vocab": 11, "dtype": "bf16"}
DEGREES = {"tp": 2, "pp": 2}
ROWS = 11  # of which a chunk has two


def rng_state():
    """The states that Megatron saves of each rank, as far as they are small."""
    tp, pp = parallel_state.get_tensor_model_parallel_rank(), parallel_state.get_pipeline_model_parallel_rank()
    random.seed(tp + 10 * pp)
    states = [{
        "random_rng_state": random.getstate(), "np_rng_state": np.random.RandomState(tp + 10 * pp).get_state(),
        "torch_rng_state": torch.full([16], tp + 10 * pp, dtype=torch.uint8), "cuda_rng_state": torch.zeros(16, dtype=torch.uint8),
        "rng_tracker_states": {},
    }]  # fmt: skip
    return ShardedObject("rng_state", states, (DEGREES["pp"], DEGREES["tp"]), (pp, tp), replica_id=0)


def uneven(rank):
    """A tensor of 11 rows whose chunks have two: of ranks 0, 1 and 2 it has 8, 2 and 1."""
    begin, rows = [(0, 8), (8, 2), (10, 1), (0, 8)][rank]
    whole = torch.arange(ROWS * 3, dtype=torch.float32).reshape(ROWS, 3)
    return ShardedTensor("uneven", whole[begin : begin + rows].clone(), torch.float32, (rows, 3), (ROWS, 3), (begin, 0), (5, 1),
                         replica_id=int(rank == 3), allow_shape_mismatch=True)  # fmt: skip


def write(out, backends):
    manager = multiprocessing.managers.SyncManager(ctx=multiprocessing.get_context("fork"))
    manager.start(initializer=lambda: ctypes.CDLL(None).prctl(1, 9))  # it ends with this process
    filesystem_async._results_queue = manager.Queue()
    chunks, _, optimizer = steps._set_up(MODEL, distributed=False, **DEGREES)
    precision.fill(MODEL, chunks, optimizer, False)
    args = precision.args_of(MODEL, DEGREES, False)
    args.bf16 = True
    common = {"args": args, "checkpoint_version": 3.0, "iteration": 10}
    for name, backend in backends.items():
        args.ckpt_format = backend
        state, metadata = steps._state(chunks, optimizer, None, False)
        state["rng_state"] = rng_state()
        state["uneven"] = uneven(dist.get_rank())
        folder = Path(out, name, "iter_0000010")
        folder.mkdir(parents=True, exist_ok=True)
        Path(out, name, "latest_checkpointed_iteration.txt").write_text("10")
        dist.barrier()
        # The check of access accepts regular grids alone.
        dist_checkpointing.save(state | common, str(folder), (backend, 1), validate_access_integrity=False, content_metadata=metadata)


def digests(folder):
    """Of the whole tensors, as Megatron-core loads them."""
    loaded = dist_checkpointing.load_plain_tensors(folder)  # beside the common state
    return {name: entry(loaded[name]) for name in sorted(dist_checkpointing.load_tensors_metadata(folder))}


def main():
    out = Path(sys.argv[1])
    on_ranks(4, write, out, {"zarr": "zarr", "twin": "torch_dist"})
    tensors = on_ranks(1, digests, str(out / "zarr/iter_0000010"))[0]
    lines = ",\n".join(f"{json.dumps(name)}: {json.dumps(item)}" for name, item in tensors.items())
    model, layout = json.dumps(MODEL), json.dumps({**DEGREES, "dp": 1, "world": 4})
    text = f'{{\n"written_by": {{"megatron-core": "0.15.3"}},\n"model": {model},\n"layout": {layout},\n"tensors": {{\n{lines}\n}}\n}}\n'
    (out / "zarr.json").write_text(text)


if __name__ == "__main__":
    main()
