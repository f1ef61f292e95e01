#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""conversion.py [--tpx TPX] [--scratch DIR] [--layers N] [--repeats N] [--bridge SOURCE] [--write]

Converts a Hugging Face folder of a Llama, by tpx and by another tool in turn: to safetensors again, compared with from_pretrained
and save_pretrained of transformers; and to Megatron's names in rank files of tp=2, compared with the mappings of Megatron Bridge,
whose unpacked wheel is SOURCE (see testdata/make/bridge.py). Megatron Bridge needs a GPU to build its models, so only its mappings
run, for both ranks in one process, and torch.save writes their results. Run with a Python that has transformers
(scripts/interop-venv.sh).
"""
import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import llama
from timing import in_turn, machine, spread

HERE = Path(__file__).resolve().parent
RANKS = 2


def by_transformers(source, out):
    """Loads and saves the model; returns the seconds that this takes."""
    import transformers

    transformers.logging.set_verbosity_error()
    kind = transformers.LlamaForCausalLM
    started = time.perf_counter()
    kind.from_pretrained(source, dtype="auto").save_pretrained(out)
    os.sync()
    return time.perf_counter() - started


def by_bridge(wheel, source, out):
    """Converts the model with Megatron Bridge's mappings and saves each rank; returns the seconds that this takes."""
    import torch
    import transformers
    from safetensors import safe_open

    sys.path[:0] = [str(HERE.parent / "testdata/make"), str(HERE.parent / "tests/interop")]
    import bridge

    sys.meta_path.insert(0, bridge.Finder(wheel))
    config = transformers.LlamaConfig.from_pretrained(source)
    started = time.perf_counter()
    files = {name: file for path in sorted(Path(source).glob("*.safetensors")) for file in [safe_open(path, "pt")] for name in file.keys()}
    own, ranks, modules = bridge.loaded("llama.llama_bridge", config, list(files))
    ranks.size, held = RANKS, [{} for _ in range(RANKS)]
    for name, mapping, sources in bridge.mapped(own.mapping_registry(), files):
        values = {key: files[hf].get_tensor(hf) for key, hf in sources.items()}
        whole = (sum(value.shape[0] for value in values.values()), *next(iter(values.values())).shape[1:])
        values = values if isinstance(mapping.hf_param, dict) else values[""]
        for rank, piece in zip(held, bridge.converted(ranks, modules, mapping, name, values, config, whole)):
            rank[name] = piece
    for rank, tensors in enumerate(held):
        folder = Path(out, f"iter_0000001/mp_rank_{rank:02}")
        folder.mkdir(parents=True)
        torch.save({"model": tensors}, folder / "model_optim_rng.pt")
    os.sync()
    return time.perf_counter() - started


class Timed:
    """A command that returns its seconds when it is called, and records its peak memory over all calls."""

    def __init__(self, *command, prints_seconds=False):
        self.command, self.prints_seconds, self.memory = [str(word) for word in command], prints_seconds, 0

    def __call__(self):
        started = time.perf_counter()
        complaints = tempfile.TemporaryFile("w+")
        process = subprocess.Popen(self.command, stdout=subprocess.PIPE, stderr=complaints, text=True)
        text = process.stdout.read()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        taken = time.perf_counter() - started
        if status:
            sys.exit(f"{' '.join(self.command)}: exit {process.returncode}\n{complaints.seek(0) or complaints.read()}")
        self.memory = max(self.memory, usage.ru_maxrss / 1024)
        return float(text.split()[-1]) if self.prints_seconds else taken


def compared(what, theirs, ours, source, out, repeats):
    """A row of the table."""
    others, own = in_turn([theirs, ours], source, out, repeats)
    ratio = statistics.median(others) / statistics.median(own)
    return f"| {what} | {spread(others)} | {spread(own)} | **{ratio:.1f}** | {theirs.memory:.0f} | {ours.memory:.0f} | {theirs.memory / ours.memory:.1f} |"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[1])
    parser.add_argument("--tpx", default=str(HERE.parent / "build/release/cmd/tpx"))
    parser.add_argument("--scratch")
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--bridge")
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--run", nargs="+", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.run:
        name, *words = options.run
        print({"transformers": by_transformers, "bridge": by_bridge}[name](*words))
        return
    with tempfile.TemporaryDirectory(dir=options.scratch) as folder:
        source, out = Path(folder, "source"), Path(folder, "out")
        total = llama.write(source, options.layers)
        python = [sys.executable, __file__, "--run"]
        reshard = [options.tpx, "reshard", source, out, "--quiet", "--to"]
        rows = [compared("transformers, load and save", Timed(*python, "transformers", source, out, prints_seconds=True), Timed(*reshard, "tp=1"), source, out, options.repeats)]
        if options.bridge:
            theirs = Timed(*python, "bridge", options.bridge, source, out, prints_seconds=True)
            rows.append(compared(f"Megatron Bridge's mappings, tp={RANKS}", theirs, Timed(*reshard, f"tp={RANKS}", "--format", "megatron"), source, out, options.repeats))
        text = (
            f"`bench/conversion.py` on {machine(folder)}: {total / 2**30:.2f} GiB of a Llama (bf16), warm, files synced; seconds as\n"
            f"median (least–most) of {options.repeats}, including the start of tpx but not of Python; peak resident memory in MiB.\n"
            f"Load {os.getloadavg()[0]:.0f} at the end.\n\n"
            "| other tool | seconds | tpx | ratio | MiB | tpx | ratio |\n|---|---|---|---|---|---|---|\n" + "\n".join(rows)
        )
    print(text)
    if options.write:
        from results import put

        put("reshard beside transformers and Megatron Bridge", text)


if __name__ == "__main__":
    main()
