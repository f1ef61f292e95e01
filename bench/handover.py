#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""handover.py [--tpx TPX] [--scratch DIR] [--gib N] [--repeats N] [--write]

The time in which two ranks of a job save N GiB of state (default 4) and load it after a restart, through the disk (dcp.save with
synced files, dcp.load) and through `tpx hold` in host memory (export and attach of examples/tpx_handover.py); and the same with a
change of the layout to one rank in between (tpx reshard, tpx hold). Run with a Python that has torch (scripts/interop-venv.sh).
"""
import argparse
import multiprocessing
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

from results import put
from timing import cool, machine, output, remove, run

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "examples"))
RANKS, TENSORS = 2, 16


def _state(gib):
    import torch
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import DTensor, Shard

    ranks = torch.distributed.get_world_size()
    mesh = init_device_mesh("cpu", (ranks,))
    rows = int(gib * 2**30) // TENSORS // 4 // 4096 // ranks
    shards = [DTensor.from_local(torch.rand(rows, 4096), mesh, [Shard(0)]) for _ in range(TENSORS)]
    return {"model": {f"layers.{k}.weight": shard for k, shard in enumerate(shards)}}


def _rank(rank, ranks, meeting, what, gib, folder):
    import torch
    import torch.distributed as dist
    import torch.distributed.checkpoint as dcp
    from torch.distributed.checkpoint import FileSystemWriter

    import tpx_handover

    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=ranks)
    state = _state(gib)
    dist.barrier()
    started = time.perf_counter()
    if what == "save":
        dcp.save(state, storage_writer=FileSystemWriter(folder, sync_files=True))
    elif what == "export":
        tpx_handover.export(state, "bench", rank, ranks, iteration=0)
    elif what == "load":
        dcp.load(state, checkpoint_id=folder)
    elif what == "attach":
        tpx_handover.attach("bench", rank).load(state)
    elif what == "map":
        tpx_handover.attach("bench", rank).state_dict()
    dist.barrier()
    if rank == 0:
        Path(f"{meeting}.seconds").write_text(str(time.perf_counter() - started))
    os._exit(0)


def on_ranks(ranks, what, gib, folder):
    """Seconds that the ranks need for the step, without the start of Python and the creation of tensors."""
    import torch.distributed.checkpoint  # noqa: F401, loaded before the ranks are forked

    with tempfile.TemporaryDirectory() as meeting:
        context = multiprocessing.get_context("fork")
        processes = [context.Process(target=_rank, args=(rank, ranks, f"{meeting}/meet", what, gib, folder)) for rank in range(ranks)]
        for process in processes:
            process.start()
        for process in processes:
            process.join()
        if any(process.exitcode for process in processes):
            sys.exit(f"{what}: a rank failed")
        return float(Path(f"{meeting}/meet.seconds").read_text())


def measure(tpx, scratch, gib):
    """Seconds of each step in one run through disk and through memory."""
    saved, changed = scratch / "saved", scratch / "changed"
    for folder in (saved, changed):
        remove(folder)
    found = {"save": on_ranks(RANKS, "save", gib, saved)}
    found["load, warm"] = on_ranks(RANKS, "load", gib, saved)
    cool(saved)
    found["load, cold"] = on_ranks(RANKS, "load", gib, saved)
    hold = [tpx, "hold", "--quiet", "--name", "bench"]
    output([*hold, "--empty", "--timeout", "none"])
    found["export"] = on_ranks(RANKS, "export", gib, None)
    found["attach and copy"] = on_ranks(RANKS, "attach", gib, None)
    on_ranks(RANKS, "export", gib, None)
    found["attach"] = on_ranks(RANKS, "map", gib, None)
    on_ranks(RANKS, "export", gib, None)
    found["tpx reshard"] = run([tpx, "reshard", saved, changed, "--to", "fsdp=1", "--quiet"])
    found["load on 1 rank"] = on_ranks(1, "load", gib, changed)
    found["tpx hold"] = run([tpx, "hold", "hold:bench", "--name", "changed", "--to", "fsdp=1", "--quiet"])
    output([tpx, "hold", "--release", "bench"])
    output([tpx, "hold", "hold:changed", "--name", "bench", "--quiet"])
    output([tpx, "hold", "--release", "changed"])
    found["attach and copy on 1 rank"] = on_ranks(1, "attach", gib, None)
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tpx", default=str(HERE.parent / "build/release/cmd/tpx"))
    parser.add_argument("--scratch")
    parser.add_argument("--gib", type=float, default=4)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.scratch) as folder:
        os.environ["XDG_RUNTIME_DIR"] = folder
        place = machine(folder)
        runs = [measure(options.tpx, Path(folder), options.gib) for _ in range(options.repeats)]
    seconds = {step: statistics.median(one[step] for one in runs) for step in runs[0]}
    ways = {
        "the same layout, 2 ranks": (["save", "load, warm"], ["export", "attach and copy"]),
        "the same, page cache dropped": (["save", "load, cold"], ["export", "attach and copy"]),
        "the same, tensors used in place": (["save", "load, warm"], ["export", "attach"]),
        "from 2 ranks to 1": (["save", "tpx reshard", "load on 1 rank"], ["export", "tpx hold", "attach and copy on 1 rank"]),
    }
    lines = [f"`bench/handover.py --gib {options.gib:g}`, median of {options.repeats}, {place}:", "",
             "| restart | by disk | seconds | in memory | seconds | ratio |", "|---|---|---|---|---|---|"]  # fmt: skip
    for name, (disk, memory) in ways.items():
        old, new = (sum(seconds[step] for step in steps) for steps in (disk, memory))
        steps = [" + ".join(f"{step} {seconds[step]:.2f}" for step in part) for part in (disk, memory)]
        lines.append(f"| {name} | {steps[0]} | {old:.2f} | {steps[1]} | {new:.2f} | {old / new:.1f} |")
    text = "\n".join(lines)
    print(text)
    if options.write:
        put("hand-over to a restarted process", text)


if __name__ == "__main__":
    main()
