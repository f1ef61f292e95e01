# SPDX-License-Identifier: Apache-2.0
"""Runs a function on several ranks, each a process, joined by gloo."""
import multiprocessing
import os
import sys
import tempfile
import traceback

import torch
import torch.distributed as dist


def _rank(function, arguments, rank, size, folder):
    # The processes share the parent's terminal; what the frameworks say on it is kept for the failure.
    os.dup2(os.open(f"{folder}/log{rank}", os.O_CREAT | os.O_WRONLY), 1)
    os.dup2(1, 2)
    status = 1
    try:
        torch.set_num_threads(1)
        dist.init_process_group("gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=size)
        torch.save(function(*arguments), f"{folder}/result{rank}")
        dist.barrier()
        status = 0
    except BaseException:
        traceback.print_exc()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


def on_ranks(size, function, *arguments, seconds=1200):
    """What `function(*arguments)` gives on each of `size` ranks. Raises RuntimeError with a failed rank's last word."""
    with tempfile.TemporaryDirectory() as folder:
        context = multiprocessing.get_context("fork")
        processes = [context.Process(target=_rank, args=(function, arguments, rank, size, folder)) for rank in range(size)]
        for process in processes:
            process.start()
        failed = None
        for rank, process in enumerate(processes):
            process.join(5 if failed is not None else seconds)
            if process.exitcode != 0 and failed is None:
                failed = rank
        for process in processes:
            if process.is_alive():
                process.kill()
        if failed is not None:
            with open(f"{folder}/log{failed}") as log:
                said = log.read().strip().splitlines()
            raise RuntimeError(f"rank {failed}: {said[-1] if said else 'no answer'}")
        return [torch.load(f"{folder}/result{rank}", weights_only=False) for rank in range(size)]
