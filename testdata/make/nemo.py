#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes testdata/megatron/nemo: `PYTHONPATH=tests/interop python -P nemo.py OUT`, with megatron-core 0.16 (scripts/interop-venv.sh).

A Llama of two layers in bf16 and Adam's state in f32 after ten steps on two CPU ranks (tp 2), saved as NeMo 2 does:
nemo/lightning/megatron_parallel.py gives the model's own sharded_state_dict() the prefix "module.", which names of optimizer state
inherit; the checkpoint is the folder `weights`, its common state is that of Lightning, without args, and there is no tracker file.
Beside it, in `plain`, the same state under the names of Megatron-LM, which is not kept. Values depend on names only.
"""
import ctypes
import multiprocessing
import multiprocessing.managers
import sys
from pathlib import Path

import torch.distributed as dist

import megatron_precision as precision
import megatron_steps as steps
from ranks import on_ranks

from megatron.core import dist_checkpointing, parallel_state
from megatron.core.dist_checkpointing.strategies import filesystem_async

MODEL = precision.MODEL | {"hidden": 8, "ffn": 8, "heads": 2, "kv_heads": 2, "kv_channels": 4, "vocab": 12, "dtype": "bf16"}


def write(out):
    manager = multiprocessing.managers.SyncManager(ctx=multiprocessing.get_context("fork"))
    manager.start(initializer=lambda: ctypes.CDLL(None).prctl(1, 9))  # it ends with this process
    filesystem_async._results_queue = manager.Queue()
    (chunk,), _, optimizer = steps._set_up(MODEL, distributed=False, tp=2, pp=1)
    precision.fill(MODEL, [chunk], optimizer, False)
    metadata = {"dp_cp_group": parallel_state.get_data_parallel_group(with_context_parallel=True), "singleton_local_shards": False}
    for name, prefix in {"nemo/weights": "module.", "plain": ""}.items():
        state = {"state_dict": chunk.sharded_state_dict(prefix=prefix, metadata=metadata)}
        state["optimizer"] = [optimizer.sharded_state_dict(state["state_dict"], metadata=metadata)]
        folder = Path(out, name)
        folder.mkdir(parents=True, exist_ok=True)
        dist.barrier()
        common = {"epoch": 0, "global_step": 10, "pytorch-lightning_version": "2.4.0", "lr_schedulers": []}
        dist_checkpointing.save(state | common, str(folder), ("torch_dist", 1), content_metadata={"singleton_local_shards": False})


if __name__ == "__main__":
    on_ranks(2, write, sys.argv[1])
