#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""plan.py [--tpx TPX] [--repeats N] [--write]

Bytes that a change of layout moves between hosts, and the time to plan it: by tpx, by Megatron-core's resharding
planner, by PyTorch DCP's load planner, by a planner that compares all pairs of ranks, and by the same planner after
relabeling ranks by greedy swaps (the rule of COSTA: pairs in the order of decreasing gain, each rank swapped at most once).
The last two are implemented here; the frameworks' planners run unchanged, on metadata of the same tensors. Run with a
Python that has torch and megatron-core (scripts/interop-venv.sh); planners of missing frameworks are skipped.
"""
import argparse
import itertools
import json
import os
import subprocess
import sys
from pathlib import Path

from timing import machine

HERE = Path(__file__).resolve().parent
BYTES = 14  # per parameter: bf16 weight, master copy and two moments in f32
VOCABULARY = 50304  # divisible by every tp here, so that no framework pads it

# GPT-3 6.7B: name, shape, the axis that tp splits, and the place of the tensor: every layer, or first or last stage.
HIDDEN, LAYERS, GPUS = 4096, 32, 4
TENSORS = [
    ("ln1.weight", (HIDDEN,), None, "layer"), ("ln1.bias", (HIDDEN,), None, "layer"),
    ("qkv.weight", (3 * HIDDEN, HIDDEN), 0, "layer"), ("qkv.bias", (3 * HIDDEN,), 0, "layer"),
    ("proj.weight", (HIDDEN, HIDDEN), 1, "layer"), ("proj.bias", (HIDDEN,), None, "layer"),
    ("ln2.weight", (HIDDEN,), None, "layer"), ("ln2.bias", (HIDDEN,), None, "layer"),
    ("fc1.weight", (4 * HIDDEN, HIDDEN), 0, "layer"), ("fc1.bias", (4 * HIDDEN,), 0, "layer"),
    ("fc2.weight", (HIDDEN, 4 * HIDDEN), 1, "layer"), ("fc2.bias", (HIDDEN,), None, "layer"),
    ("embedding", (VOCABULARY, HIDDEN), 0, "both"), ("positions", (2048, HIDDEN), None, "first"),
    ("norm.weight", (HIDDEN,), None, "last"), ("norm.bias", (HIDDEN,), None, "last"),
]  # fmt: skip
# Layouts before and after, and the bytes between hosts with the published implementation of Tenplex, counted in the same way (GB).
CASES = [
    ((4, 2, 1), (4, 2, 2), 144.3), ((4, 2, 1), (4, 4, 1), 70.6), ((4, 2, 1), (8, 2, 1), 72.3), ((4, 2, 2), (4, 2, 1), 48.0),
]  # fmt: skip


class Side:
    """A layout (tp, pp, dp), and the box of each tensor that each rank holds."""

    def __init__(self, degrees):
        self.tp, self.pp, self.dp = degrees
        self.ranks = self.tp * self.pp * self.dp

    def where(self, rank):
        return rank % self.tp, rank // (self.tp * self.dp), rank // self.tp % self.dp

    def group(self, rank, axis):
        """The ranks that differ from `rank` only in its tp (axis 0), pp (1) or dp (2) place."""
        mine = self.where(rank)
        return [r for r in range(self.ranks) if all(a == b for k, (a, b) in enumerate(zip(mine, self.where(r))) if k != axis)]

    def names(self, rank):
        """The tensors of `rank`: (name, position in TENSORS)."""
        stage = self.where(rank)[1]
        each = LAYERS // self.pp
        for number, (name, _, _, place) in enumerate(TENSORS):
            if place == "layer":
                yield from ((f"{layer}.{name}", number) for layer in range(stage * each, (stage + 1) * each))
            elif (stage == 0 and place in ("first", "both")) or (stage == self.pp - 1 and place in ("last", "both")):
                yield name, number

    def box(self, rank, number):
        _, shape, axis, _ = TENSORS[number]
        box = [(0, size) for size in shape]
        if axis is not None:
            part = shape[axis] // self.tp
            place = self.where(rank)[0]
            box[axis] = (place * part, (place + 1) * part)
        return tuple(box)


def shared(a, b):
    """Number of elements in the intersection of two boxes."""
    product = 1
    for (begin, end), (other_begin, other_end) in zip(a, b):
        product *= max(0, min(end, other_end) - max(begin, other_begin))
    return product


def host(rank):
    return rank // GPUS


def all_pairs(old, new):
    """(from, to) -> number of elements, if each new rank looks for the elements that it needs on every old rank."""
    holders = {}
    for rank in range(old.ranks):
        for name, number in old.names(rank):
            holders.setdefault(name, []).append((rank, old.box(rank, number)))
    volume = {}
    for rank in range(new.ranks):
        for name, number in new.names(rank):
            need = new.box(rank, number)
            seen = set()
            # The rank itself first, then in order; equal boxes are replicas.
            for source, box in sorted(holders[name], key=lambda held: (held[0] != rank, held[0])):
                elements = shared(need, box)
                if elements and box not in seen:
                    seen.add(box)
                    volume[source, rank] = volume.get((source, rank), 0) + elements
    return volume


def between_hosts(volume, place=lambda rank: rank):
    return BYTES * sum(n for (source, rank), n in volume.items() if host(source) != host(place(rank)))


def greedy_swaps(volume, ranks):
    """New rank -> process, by COSTA's rule: pairs of ranks in the order of decreasing gain, no rank twice."""
    get = lambda a, b: volume.get((a, b), 0)
    pairs = itertools.combinations(range(ranks), 2)
    gains = sorted(((get(a, b) + get(b, a) - get(a, a) - get(b, b), a, b) for a, b in pairs), reverse=True)
    place = list(range(ranks))
    moved = set()
    for gain, a, b in gains:
        if gain > 0 and a not in moved and b not in moved:
            place[a], place[b] = b, a
            moved |= {a, b}
    return place


def naive(old, new):
    return between_hosts(all_pairs(old, new))


def costa(old, new):
    volume = all_pairs(old, new)
    place = greedy_swaps(volume, max(old.ranks, new.ranks))
    return between_hosts(volume, lambda rank: place[rank])


def megatron(old, new):
    """The loop of build_centralized_reshard_plan over metadata of all ranks."""
    import torch
    from megatron.core.resharding.planner import _determine_source_ranks_for_dst_param as sources_of
    from megatron.core.resharding.utils import ParameterMetadata, select_src_metadata_balanced

    def metadata(side, rank):
        for name, number in side.names(rank):
            axis = TENSORS[number][2]
            shape = tuple(end - begin for begin, end in side.box(rank, number))
            yield name, ParameterMetadata(
                name=name, shape=shape, dtype=torch.bfloat16, element_size=2, is_tp=axis is not None, partition_dim=axis or 0,
                owner_rank=rank, tensor_parallel_group_ranks=side.group(rank, 0), data_parallel_group_ranks=side.group(rank, 2),
            )  # fmt: skip

    known = {}
    for rank in range(old.ranks):
        for name, meta in metadata(old, rank):
            known.setdefault(name, []).append(meta)
    moved = 0
    for rank in range(new.ranks):
        for name, meta in metadata(new, rank):
            source = select_src_metadata_balanced(known[name], meta, rank)
            for sender, slices, _ in sources_of(name, source, meta, rank):
                if host(sender) == host(rank):
                    continue
                elements = 1
                for size, cut in zip(source.shape, slices):
                    elements *= len(range(*cut.indices(size)))
                moved += elements
    return BYTES * moved


def dcp(old, new):
    """Bytes that ranks read from storage with DCP's planner; all of them are sent to a host."""
    from torch.distributed.checkpoint.metadata import ChunkStorageMetadata, TensorProperties, TensorStorageMetadata
    from torch.distributed.checkpoint.planner_helpers import create_read_items_for_chunk_list
    import torch

    def chunk(box):
        return ChunkStorageMetadata(torch.Size(b for b, _ in box), torch.Size(e - b for b, e in box))

    stored = {}
    for rank in range(old.ranks):
        for name, number in old.names(rank):
            stored.setdefault(name, (number, {}))[1][old.box(rank, number)] = None
    metadata = {
        name: TensorStorageMetadata(TensorProperties(torch.bfloat16), torch.Size(TENSORS[number][1]), [chunk(b) for b in boxes])
        for name, (number, boxes) in stored.items()
    }
    read = 0
    for rank in range(new.ranks):
        for name, number in new.names(rank):
            for item in create_read_items_for_chunk_list(name, metadata[name], [chunk(new.box(rank, number))]):
                read += item.lengths.numel()
    return BYTES * read


def tpx(program):
    def plan(old, new):
        text = lambda side: f"tp={side.tp},pp={side.pp},dp={side.dp}"
        hosts = f"{max(old.ranks, new.ranks) // GPUS}x{GPUS}"
        command = [program, "plan", "--model", "gpt3-6.7b", "--set", f"vocab_size={VOCABULARY}", "--from", text(old), "--to",
                   text(new), "--hosts", hosts, "--json"]  # fmt: skip
        done = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
        if not done["certificate"]["minimal"]:
            sys.exit("the plan is not minimal")
        return done["certificate"]["between_hosts"]

    return plan


def cpu_seconds():
    """CPU seconds of this process and its children, including time in the kernel."""
    return sum(os.times()[:4])


def timed(function, old, new, repeats):
    """Bytes, and the least CPU time to plan; each run repeats for at least half a second, because times() counts in 10 ms."""
    seconds = []
    for _ in range(repeats):
        started, runs = cpu_seconds(), 0
        while cpu_seconds() - started < 0.5:
            moved = function(old, new)
            runs += 1
        seconds.append((cpu_seconds() - started) / runs)
    return moved, min(seconds)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[1])
    parser.add_argument("--tpx", default=HERE.parent / "build/release/cmd/tpx")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--write", action="store_true", help="put the table into RESULTS.md")
    options = parser.parse_args()
    planners = {"tpx": tpx(options.tpx), "Megatron-core": megatron, "DCP (storage)": dcp, "all pairs": naive, "COSTA's rule": costa}
    rows = ["| (tp, pp, dp) | " + " | ".join(planners) + " | Tenplex |", "|---|" + "---|" * (len(planners) + 1)]
    for old, new, published in CASES:
        cells = []
        for planner in planners.values():
            try:
                moved, seconds = timed(planner, Side(old), Side(new), options.repeats)
                cells.append(f"{moved / 1e9:.1f} GB, {seconds * 1e3:.0f} ms")
            except ImportError as missing:
                cells.append(f"({missing.name} is missing)")
        rows.append(f"| {old} → {new} | " + " | ".join(cells) + f" | {published} GB |")
        print(rows[-1], file=sys.stderr)
    words = f"GPT-3 6.7B, {BYTES} bytes per parameter, {GPUS} GPUs per host: bytes between hosts, and the CPU time to plan (for tpx, including its start)."
    text = "\n".join([f"{machine(HERE)}, load {os.getloadavg()[0]:.0f} at the end", "", words, "", *rows])
    print(text)
    if options.write:
        import results

        results.put("plan: peers", text)


if __name__ == "__main__":
    main()
