#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""zero.py [--tpx TPX] [--scratch DIR] [--layers N] [--repeats N] [--any] [--write]

Seconds and peak memory of tpx and of DeepSpeed's own converters: a ZeRO 2 checkpoint of four ranks is converted to a universal
checkpoint (ds_to_universal), and consolidated to fp32 weights (zero_to_fp32). With --any, seconds and peak memory of tpx for
converting this checkpoint, with its optimizer, from each format to each other, compared with the frameworks' own tools. Run with
a Python that has torch, DeepSpeed and Megatron-core (scripts/interop-venv.sh).
"""
import argparse
import json
import os
import statistics
import sys
import tempfile
from pathlib import Path

from timing import machine, remove, run, side_by_side, size, spread, warm

HERE = Path(__file__).resolve().parent
RANKS, WIDTH, FFN, VOCABULARY = 4, 1024, 2816, 16000
# The layout of each format as a source, and as a target.
FORMS = {
    "deepspeed": ("dp=4,zero=2", "dp=2,zero=1"),
    "universal": ("tp=1", "tp=1"),
    "torch_dist": ("tp=2,dp=2", "tp=4"),
    "megatron": ("tp=2,dp=2", "tp=4,dp=2"),
    "dcp": ("fsdp=4", "fsdp=2"),
}


def shapes(layers):
    """Yields (name, shape) for each tensor of a Llama with 8 heads."""
    yield "model.embed_tokens.weight", (VOCABULARY, WIDTH)
    for i in range(layers):
        for name in "qkvo":
            yield f"model.layers.{i}.self_attn.{name}_proj.weight", (WIDTH, WIDTH)
        yield f"model.layers.{i}.mlp.gate_proj.weight", (FFN, WIDTH)
        yield f"model.layers.{i}.mlp.up_proj.weight", (FFN, WIDTH)
        yield f"model.layers.{i}.mlp.down_proj.weight", (WIDTH, FFN)
        yield f"model.layers.{i}.input_layernorm.weight", (WIDTH,)
        yield f"model.layers.{i}.post_attention_layernorm.weight", (WIDTH,)
    yield "model.norm.weight", (WIDTH,)
    yield "lm_head.weight", (VOCABULARY, WIDTH)


def write(root, layers):
    """Writes a checkpoint of random numbers as DeepSpeed 0.19.8 does."""
    from collections import OrderedDict

    import torch
    from deepspeed.runtime.fp16.loss_scaler import LossScaler
    from deepspeed.runtime.zero.config import ZeroStageEnum
    from deepspeed.utils.tensor_fragment import fragment_address

    step = Path(root, "global_step1")
    step.mkdir(parents=True)
    Path(root, "latest").write_text(step.name)
    sizes = {"hidden_size": WIDTH, "intermediate_size": FFN, "vocab_size": VOCABULARY, "num_hidden_layers": layers}
    model = {"model_type": "llama", "num_attention_heads": 8, "tie_word_embeddings": False, "rms_norm_eps": 1e-5, **sizes}
    Path(root, "config.json").write_text(json.dumps(model))
    sizes = OrderedDict((name, torch.Size(shape)) for name, shape in shapes(layers))
    total = sum(shape.numel() for shape in sizes.values())
    part = 2 * -(-total // (2 * RANKS))
    config = {"zero_optimization": {"stage": 2}, "bf16": {"enabled": True}}
    master = torch.randn(part * RANKS, generator=torch.Generator().manual_seed(1)) * 0.02
    module, at = OrderedDict(), 0
    for name, shape in sizes.items():
        module[name] = master[at : at + shape.numel()].reshape(shape).bfloat16()
        at += shape.numel()
    torch.save({
        "module": module, "buffer_names": [], "optimizer": None, "param_shapes": [sizes], "frozen_param_shapes": None,
        "shared_params": {}, "frozen_param_fragments": None, "lr_scheduler": None, "data_sampler": None, "random_ltd": None,
        "skipped_steps": 0, "global_steps": 1, "global_samples": 8, "dp_world_size": RANKS, "mp_world_size": 1,
        "checkpoint_parallel_dimensions": {"pp_degree": 1, "tp_degree": 1}, "ds_config": config, "ds_version": "0.19.8",
        "universal_checkpoint_info": {"universal_checkpoint_version": 0.2},
    }, step / "mp_rank_00_model_states.pt")  # fmt: skip
    for rank in range(RANKS):
        held = min((rank + 1) * part, total) - rank * part
        mappings, at = OrderedDict(), 0
        for name, shape in sizes.items():
            begin, end = max(at, rank * part), min(at + shape.numel(), rank * part + held)
            if begin < end:
                mappings[name] = fragment_address(numel=end - begin, start=begin - rank * part)
            at += shape.numel()
        fp32 = master[rank * part : rank * part + held].clone()
        moments = {"exp_avg": master[rank * part : (rank + 1) * part] * 0.5, "exp_avg_sq": master[rank * part : (rank + 1) * part] ** 2}
        optimizer = {
            "loss_scaler": LossScaler(scale=1.0), "dynamic_loss_scale": False, "overflow": False, "clip_grad": 1.0,
            "base_optimizer_state": {
                "state": {0: {"step": torch.tensor(1.0), **moments}},
                "param_groups": [{"lr": 1e-3, "betas": (0.9, 0.95), "eps": 1e-8, "weight_decay": 0.1, "params": [0]}],
            },
            "single_partition_of_fp32_groups": [fp32], "zero_stage": ZeroStageEnum(2), "group_paddings": [part - held],
            "param_alignment_paddings": [[0] * len(sizes)], "partition_count": [RANKS], "ds_version": "0.19.8",
            "param_slice_mappings": [mappings],
        }  # fmt: skip
        torch.save({"optimizer_state_dict": optimizer, "ds_config": config, "ds_version": "0.19.8"}, step / f"bf16_zero_pp_rank_{rank}_mp_rank_00_optim_states.pt")


def peak(command, scratch):
    """Peak memory in MiB of the largest process of a command (itself or a child), and its seconds."""
    record = scratch / "peak"
    record.unlink(missing_ok=True)
    seconds = run([sys.executable, str(HERE / "peak.py"), str(record), *command])
    return int(record.read_text()) / 1024, seconds


def megatron(source, out):
    """Loads all tensors of a torch_dist checkpoint with Megatron-core, and saves them, which needs no model."""
    sys.path.insert(0, str(HERE.parent / "tests/interop"))
    import torch
    from load_megatron import ShardedTensor, dist, dist_checkpointing
    from torch.distributed.checkpoint import FileSystemReader
    from torch.distributed.checkpoint.metadata import TensorStorageMetadata

    with tempfile.TemporaryDirectory() as folder:
        dist.init_process_group("gloo", init_method=f"file://{folder}/meet", rank=0, world_size=1)
        step = next(Path(source).glob("iter_*"))
        metadata = FileSystemReader(str(step)).read_metadata().state_dict_metadata
        empty = {k: torch.empty(m.size, dtype=m.properties.dtype) for k, m in metadata.items() if isinstance(m, TensorStorageMetadata)}
        state = dist_checkpointing.load({k: ShardedTensor.from_rank_offsets(k, v) for k, v in empty.items()}, str(step))
        Path(out).mkdir()
        dist_checkpointing.save({k: ShardedTensor.from_rank_offsets(k, state[k]) for k in empty}, str(out))
        dist.destroy_process_group()


def any_to_any(options, scratch):
    """A table of MiB and seconds of each conversion, and a table of the frameworks' own tools."""
    made = {"deepspeed": scratch / "source"}
    out = scratch / "out"
    more = ["--quiet", "--memory", "256MiB", "--config", str(made["deepspeed"] / "config.json")]

    def reshard(source, target, kind, layout):
        dtype = ["--dtype", "bf16"] if source == "dcp" and kind != "dcp" else []
        return [options.tpx, "reshard", str(made[source]), str(target), "--to", layout, "--format", kind, *more, *dtype]

    for kind, (layout, _) in list(FORMS.items())[1:]:
        run(reshard("deepspeed", scratch / kind, kind, layout))
        made[kind] = scratch / kind
    rows, best = [], {}
    for source in FORMS:
        cells = []
        for kind, (_, layout) in FORMS.items():
            if kind == "deepspeed" and source not in ("deepspeed", "universal"):
                cells.append("–")
                continue
            warm(made[source])
            best[source, kind] = mib, seconds = peak(reshard(source, out, kind, layout), scratch)
            cells.append(f"{mib:.0f} MiB, {seconds:.1f} s")
            remove(out)
        rows.append(f"| {source} | {' | '.join(cells)} |")
    own = [
        ("deepspeed", "universal", "ds_to_universal", [sys.executable, "-m", "deepspeed.checkpoint.ds_to_universal", "--input_folder",
          str(made["deepspeed"] / "global_step1"), "--output_folder", str(out / "u"), "--num_extract_workers", "2", "--num_merge_workers", "2"]),
        ("dcp", "dcp", "PyTorch DCP, load and save on 4 ranks", [sys.executable, str(HERE / "peers.py"), "--torch", str(made["dcp"]), str(out)]),
        ("torch_dist", "torch_dist", "Megatron-core, load and save on 1 rank", [sys.executable, __file__, "--megatron", str(made["torch_dist"]), str(out)]),
    ]  # fmt: skip
    beside = []
    for source, kind, tool, command in own:
        remove(out)
        warm(made[source])
        mib, seconds = peak(command, scratch)
        ours, taken = best[source, kind]
        beside.append(f"| {source} → {kind} | {tool} | {mib:.0f} MiB, {seconds:.1f} s | **{mib / ours:.1f}** | **{seconds / taken:.1f}** |")
    gib = size(made["deepspeed"]) / 2**30
    return (
        f"`bench/zero.py --any` on {machine(scratch)}, load {os.getloadavg()[0]:.0f} at the end: {gib:.2f} GiB of weights, masters\n"
        "and moments, warm; tpx on one rank with `--memory 256MiB`: peak resident memory and seconds of one run, files synced.\n\n"
        f"| from, into | {' | '.join(FORMS)} |\n|{'---|' * (len(FORMS) + 1)}\n" + "\n".join(rows) + "\n\n"
        "The frameworks' own tools: memory of the largest process, seconds (including the start of Python), and ratios to tpx.\n\n"
        "| change | tool | memory and time | memory ratio | time ratio |\n|---|---|---|---|---|\n" + "\n".join(beside)
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tpx", default=str(HERE.parent / "build/release/cmd/tpx"))
    parser.add_argument("--scratch")
    parser.add_argument("--layers", type=int, default=3)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--any", action="store_true")
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--megatron", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    os.environ.update(DS_ACCELERATOR="cpu", OMP_NUM_THREADS="1")
    if options.megatron:
        return megatron(*options.megatron)
    with tempfile.TemporaryDirectory(dir=options.scratch) as folder:
        scratch = Path(folder)
        source, out = scratch / "source", scratch / "out"
        write(source, options.layers)
        if options.any:
            text = any_to_any(options, scratch)
            print(text)
            if options.write:
                from results import put

                put(f"reshard from any format into any, {size(source) / 2**30:.0f} GiB", text)
            return
        step = source / "global_step1"
        reshard = [options.tpx, "reshard", str(source), str(out), "--to", "tp=1", "--quiet", "--format"]
        python = [sys.executable, "-m"]
        workers = ["--num_extract_workers", "2", "--num_merge_workers", "2"]
        universal = [*python, "deepspeed.checkpoint.ds_to_universal", "--input_folder", str(step), "--output_folder", str(out / "u"), *workers]
        consolidate = [*python, "deepspeed.utils.zero_to_fp32", str(source), str(out), "--safe_serialization"]
        rows, peaks = [], []
        for what, ours, theirs in (
            ("universal", [*reshard, "universal"], universal),
            ("fp32 weights", [*reshard, "safetensors", "--drop", "optimizer", "--masters"], consolidate),
        ):
            tpx, deepspeed = side_by_side(lambda: run(ours), lambda: run(theirs), source, out, options.repeats)
            rows.append(f"| {what} | {spread(deepspeed)} | {spread(tpx)} | **{statistics.median(deepspeed) / statistics.median(tpx):.1f}** |")
            remove(out)
            own, _ = peak([*ours, "--memory", "64MiB"], scratch)
            remove(out)
            other, _ = peak(theirs, scratch)
            remove(out)
            peaks.append(f"| {what} | {other:.0f} MiB | {own:.0f} MiB | **{other / own:.0f}** |")
        load = os.getloadavg()[0]
        text = (
            f"`bench/zero.py` on {machine(scratch)}, load {load:.0f} at the end: {size(source) / 2**30:.2f} GiB, ZeRO 2 of {RANKS} ranks, warm;\n"
            f"seconds as median (least–most) of {options.repeats}, including the start of Python; only tpx syncs its files.\n\n"
            "| output | DeepSpeed | tpx reshard | ratio |\n|---|---|---|---|\n" + "\n".join(rows) + "\n\n"
            "Peak memory of the largest process; tpx with `--memory 64MiB`.\n\n"
            "| output | DeepSpeed | tpx | ratio |\n|---|---|---|---|\n" + "\n".join(peaks)
        )
    print(text)
    if options.write:
        from results import put

        put("reshard beside DeepSpeed's converters", text)


if __name__ == "__main__":
    main()
