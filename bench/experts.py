#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""experts.py [--tpx TPX] [--scratch DIR] [--gib N] [--repeats N] [--write]

Converts a Hugging Face folder of a mixture of experts with random bytes (the attention matrices of Mixtral, 64 small experts per
layer), in files of at most 2 GiB, to Megatron-core (torch_dist, tp=2,ep=2) and back; each conversion is compared with `cp -r` of its
source. Both sync their files, and the page cache is warm as far as memory allows.
"""
import argparse
import json
import os
import random
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from timing import in_turn, machine, size, spread

HERE = Path(__file__).resolve().parent
HIDDEN, HEADS, KV_HEADS, EXPERTS, FFN, VOCABULARY = 4096, 32, 8, 64, 1024, 32000
LARGEST = 2 << 30  # of a file


def layer(number):
    """Yields (name, shape) for each tensor of one layer."""
    head, kv = f"model.layers.{number}.", HIDDEN // HEADS * KV_HEADS
    yield head + "input_layernorm.weight", (HIDDEN,)
    yield head + "self_attn.q_proj.weight", (HIDDEN, HIDDEN)
    yield head + "self_attn.k_proj.weight", (kv, HIDDEN)
    yield head + "self_attn.v_proj.weight", (kv, HIDDEN)
    yield head + "self_attn.o_proj.weight", (HIDDEN, HIDDEN)
    yield head + "post_attention_layernorm.weight", (HIDDEN,)
    yield head + "block_sparse_moe.gate.weight", (EXPERTS, HIDDEN)
    for expert in range(EXPERTS):
        for name, shape in (("w1", (FFN, HIDDEN)), ("w2", (HIDDEN, FFN)), ("w3", (FFN, HIDDEN))):
            yield f"{head}block_sparse_moe.experts.{expert}.{name}.weight", shape


def bytes_of(shape):
    return 2 * shape[0] * (shape[1] if len(shape) == 2 else 1)


def config(layers):
    return {
        "architectures": ["MixtralForCausalLM"], "model_type": "mixtral", "dtype": "bfloat16", "hidden_act": "silu", "hidden_size": HIDDEN,
        "intermediate_size": FFN, "num_attention_heads": HEADS, "num_key_value_heads": KV_HEADS, "head_dim": HIDDEN // HEADS,
        "num_hidden_layers": layers, "num_local_experts": EXPERTS, "num_experts_per_tok": 2, "vocab_size": VOCABULARY, "rms_norm_eps": 1e-05,
        "rope_theta": 1e6, "tie_word_embeddings": False, "max_position_embeddings": 4096, "sliding_window": None,
    }  # fmt: skip


def write_file(path, tensors, noise):
    header, at = {"__metadata__": {"format": "pt"}}, 0
    for name, shape in tensors:
        header[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [at, at + bytes_of(shape)]}
        at += bytes_of(shape)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        # Every block begins at another place in the noise, so that no two matrices are equal.
        for i in range(-(-at // len(noise))):
            cut = random.randrange(len(noise))
            file.write((noise[cut:] + noise[:cut])[: at - i * len(noise)])
        file.flush()
        os.fsync(file.fileno())


def write(out, least):
    """Writes a checkpoint of whole layers and at least `least` bytes; returns the number of layers."""
    out.mkdir(parents=True)
    of_layer = sum(bytes_of(shape) for _, shape in layer(0))
    layers = -(-(least - 2 * bytes_of((VOCABULARY, HIDDEN))) // of_layer)
    tensors = [("model.embed_tokens.weight", (VOCABULARY, HIDDEN)), *(one for number in range(layers) for one in layer(number))]
    tensors += [("model.norm.weight", (HIDDEN,)), ("lm_head.weight", (VOCABULARY, HIDDEN))]
    files, held = [[]], 0
    for name, shape in tensors:
        if held + bytes_of(shape) > LARGEST:
            files.append([])
            held = 0
        files[-1].append((name, shape))
        held += bytes_of(shape)
    random.seed(1)
    noise = random.randbytes(1 << 24)
    names = [f"model-{number + 1:05}-of-{len(files):05}.safetensors" for number in range(len(files))]
    for name, inside in zip(names, files):
        write_file(out / name, inside, noise)
    index = {"metadata": {}, "weight_map": {tensor: name for name, inside in zip(names, files) for tensor, _ in inside}}
    (out / "model.safetensors.index.json").write_text(json.dumps(index))
    (out / "config.json").write_text(json.dumps(config(layers)))
    return layers


class Timed:
    """A command that returns its seconds, including a sync at the end, and records its peak memory over all calls."""

    def __init__(self, *command):
        self.command, self.memory = [str(word) for word in command], 0

    def __call__(self):
        started = time.perf_counter()
        process = subprocess.Popen(self.command)
        _, status, usage = os.wait4(process.pid, 0)
        os.sync()
        if status:
            sys.exit(f"{' '.join(self.command)}: exit {os.waitstatus_to_exitcode(status)}")
        self.memory = max(self.memory, usage.ru_maxrss / 1024)
        return time.perf_counter() - started


def row(what, command, source, out, repeats):
    """A row of the table: a conversion compared with `cp -r` of its source."""
    ours, copy = Timed(*command), Timed("cp", "-r", source, out)
    own, copied = in_turn([ours, copy], source, out, repeats)
    ratio = statistics.median(own) / statistics.median(copied)
    return f"| {what} | {size(source) / 2**30:.1f} | {spread(own)} | {spread(copied)} | **{ratio:.2f}** | {ours.memory:.0f} |"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[1])
    parser.add_argument("--tpx", default=str(HERE.parent / "build/release/cmd/tpx"))
    parser.add_argument("--scratch")
    parser.add_argument("--gib", type=float, default=8)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.scratch) as folder:
        hf, megatron, out = (Path(folder, name) for name in ("hf", "megatron", "out"))
        layers = write(hf, int(options.gib * 2**30))
        reshard = [options.tpx, "reshard", "--quiet"]
        there = [hf, "--to", "tp=2,ep=2,etp=1", "--format", "torch_dist"]
        rows = [row("Hugging Face → Megatron-core, tp=2,ep=2", [*reshard, there[0], out, *there[1:]], hf, out, options.repeats)]
        subprocess.run([*reshard, there[0], megatron, *there[1:]], check=True)
        rows.append(row("Megatron-core → Hugging Face", [*reshard, megatron, out, "--to", "tp=1", "--format", "safetensors"], megatron, out, options.repeats))
        text = (
            f"`bench/experts.py --gib {options.gib:g}` on {machine(folder)}: {layers} layers with {EXPERTS} experts each, bf16; seconds as\n"
            f"median (least–most) of {options.repeats}, including start and sync; peak resident memory in MiB. Load {os.getloadavg()[0]:.0f} at the end.\n\n"
            "| conversion | GiB | tpx | `cp -r` | ratio | MiB |\n|---|---|---|---|---|---|\n" + "\n".join(rows)
        )
    print(text)
    if options.write:
        from results import put

        put("a mixture of experts, from Hugging Face to Megatron-core and back", text)


if __name__ == "__main__":
    main()
