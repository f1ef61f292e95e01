#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""peers.py [--tpx TPX] [--scratch DIR] [--layers N] [--repeats N] [--write]

The same change of layout, from a checkpoint of one rank to one of four ranks, by tpx and by PyTorch's distributed checkpoint
library (load on four gloo ranks, save, files synced). Run with a Python that has torch (scripts/interop-venv.sh).
"""
import argparse
import statistics
import sys
import tempfile
from pathlib import Path

import llama
from timing import machine, output, remove, run, side_by_side, spread

HERE = Path(__file__).resolve().parent
RANKS = 4


def _torch_rank(rank, source, out, meeting):
    import os
    import time

    import torch
    import torch.distributed as dist
    import torch.distributed.checkpoint as dcp
    from torch.distributed.checkpoint import FileSystemReader, FileSystemWriter
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.checkpoint.metadata import TensorStorageMetadata
    from torch.distributed.tensor import Replicate, Shard, zeros

    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=RANKS)
    mesh = init_device_mesh("cpu", (RANKS,))
    metadata = FileSystemReader(source).read_metadata().state_dict_metadata
    dist.barrier()
    started = time.perf_counter()
    state = {
        n: zeros(m.size, dtype=m.properties.dtype, device_mesh=mesh, placements=[Shard(0) if len(m.size) else Replicate()])
        for n, m in metadata.items() if isinstance(m, TensorStorageMetadata)
    }  # fmt: skip
    dcp.load(state, storage_reader=FileSystemReader(source))
    dcp.save(state, storage_writer=FileSystemWriter(out, sync_files=True))
    dist.barrier()
    if rank == 0:
        with open(f"{meeting}.seconds", "w") as file:
            file.write(str(time.perf_counter() - started))
    sys.stdout.flush()
    os._exit(0)


def torch_reshard(source, out):
    """Loads and saves on RANKS processes; returns the seconds, without the start of Python."""
    import multiprocessing

    import torch.distributed.checkpoint  # noqa: F401, loaded before the ranks are forked

    with tempfile.TemporaryDirectory() as folder:
        meeting = f"{folder}/meet"
        context = multiprocessing.get_context("fork")
        ranks = [context.Process(target=_torch_rank, args=(rank, source, out, meeting)) for rank in range(RANKS)]
        for process in ranks:
            process.start()
        for process in ranks:
            process.join()
        if any(process.exitcode for process in ranks):
            sys.exit("a rank failed")
        with open(f"{meeting}.seconds") as file:
            return float(file.read())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tpx", default=str(HERE.parent / "build/release/cmd/tpx"))
    parser.add_argument("--scratch")
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--torch", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.torch:
        print(torch_reshard(*options.torch))
        return

    with tempfile.TemporaryDirectory(dir=options.scratch) as folder:
        scratch = Path(folder)
        weights, source, out = scratch / "weights", scratch / "source", scratch / "out"
        total = llama.write(weights, options.layers)
        run([options.tpx, "reshard", str(weights), str(source), "--to", "tp=1", "--format", "dcp", "--quiet"])
        remove(weights)
        ours = ["mpirun", "-n", str(RANKS), options.tpx, "reshard", str(source), str(out), "--to", f"fsdp={RANKS}", "--format", "dcp"]
        theirs = [sys.executable, __file__, "--torch", str(source), str(out)]
        tpx, torch = side_by_side(lambda: run(ours), lambda: float(output(theirs)), source, out, options.repeats)
        text = (
            f"`bench/peers.py` on {machine(scratch)}: {total / 2**30:.2f} GiB, DCP of 1 rank to {RANKS} ranks, warm, files\n"
            f"synced; seconds as median (least–most) of {options.repeats}, including the start of mpirun but not of Python.\n\n"
            "| PyTorch DCP | tpx reshard | ratio |\n|---|---|---|\n"
            f"| {spread(torch)} | {spread(tpx)} | **{statistics.median(torch) / statistics.median(tpx):.1f}** |"
        )
    print(text)
    if options.write:
        from results import put

        put("reshard beside PyTorch DCP", text)


if __name__ == "__main__":
    main()
