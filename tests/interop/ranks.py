# SPDX-License-Identifier: Apache-2.0
"""Runs a function on several ranks, one process each, connected by gloo."""
import ctypes
import multiprocessing
import multiprocessing.managers
import os
import signal
import sys
import tempfile
import traceback

import torch
import torch.distributed as dist

PR_SET_PDEATHSIG = 1  # of linux/prctl.h


def queue_of_rank():
    """A queue in a process that ends with this rank. It is forked; Megatron-core's own would start a new Python."""
    manager = multiprocessing.managers.SyncManager(ctx=multiprocessing.get_context("fork"))
    manager.start(initializer=lambda: ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL))
    return manager.Queue()


def _rank(function, arguments, rank, size, folder):
    # The processes share the parent's terminal; the output of the frameworks is kept for failures.
    os.dup2(os.open(f"{folder}/log{rank}", os.O_CREAT | os.O_WRONLY), 1)
    os.dup2(1, 2)
    multiprocessing.current_process()._config["tempdir"] = folder  # for sockets of managers, which nothing else would remove
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
    """The results of `function(*arguments)` on each of `size` ranks. Raises RuntimeError with the last line of a failed
    rank."""
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
