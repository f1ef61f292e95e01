#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""zero.py [--tpx TPX] [--scratch DIR] [--layers N] [--repeats N] [--write]

What DeepSpeed's own converters do, done by tpx: a ZeRO 2 checkpoint of four ranks made universal (ds_to_universal), and
consolidated to fp32 weights (zero_to_fp32); seconds and peak memory. Run with a Python that has torch and DeepSpeed
(scripts/interop-venv.sh).
"""
import argparse
import os
import statistics
import sys
import tempfile
from pathlib import Path

from timing import machine, remove, run, side_by_side, size, spread

HERE = Path(__file__).resolve().parent
RANKS, WIDTH = 4, 1024


def shapes(layers):
    yield "embed.weight", (16000, WIDTH)
    for i in range(layers):
        yield f"layers.{i}.qkv.weight", (3 * WIDTH, WIDTH)
        yield f"layers.{i}.proj.weight", (WIDTH, WIDTH)
        yield f"layers.{i}.up.weight", (4 * WIDTH, WIDTH)
        yield f"layers.{i}.down.weight", (WIDTH, 4 * WIDTH)


def write(root, layers):
    """A checkpoint as DeepSpeed 0.19.8 writes it, of random numbers."""
    from collections import OrderedDict

    import torch
    from deepspeed.runtime.fp16.loss_scaler import LossScaler
    from deepspeed.runtime.zero.config import ZeroStageEnum
    from deepspeed.utils.tensor_fragment import fragment_address

    step = Path(root, "global_step1")
    step.mkdir(parents=True)
    Path(root, "latest").write_text(step.name)
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
    """MiB of the largest process, and of its children, that a command is."""
    record = scratch / "peak"
    record.unlink(missing_ok=True)
    run([sys.executable, str(HERE / "peak.py"), str(record), *command])
    return int(record.read_text()) / 1024


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tpx", default=str(HERE.parent / "build/release/cmd/tpx"))
    parser.add_argument("--scratch")
    parser.add_argument("--layers", type=int, default=5)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    os.environ.update(DS_ACCELERATOR="cpu", OMP_NUM_THREADS="1")
    with tempfile.TemporaryDirectory(dir=options.scratch) as folder:
        scratch = Path(folder)
        source, out = scratch / "source", scratch / "out"
        write(source, options.layers)
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
            own = peak([*ours, "--memory", "64MiB"], scratch)
            remove(out)
            other = peak(theirs, scratch)
            remove(out)
            peaks.append(f"| {what} | {other:.0f} MiB | {own:.0f} MiB | **{other / own:.0f}** |")
        load = os.getloadavg()[0]
        text = (
            f"`bench/zero.py` on {machine(scratch)}, load {load:.0f} at the end: {size(source) / 2**30:.2f} GiB, ZeRO 2 of {RANKS} ranks, warm;\n"
            f"seconds as median (least–most) of {options.repeats}, start of Python included, files synced by tpx only.\n\n"
            "| made | DeepSpeed | tpx reshard | ratio |\n|---|---|---|---|\n" + "\n".join(rows) + "\n\n"
            "Largest process of each; tpx with `--memory 64MiB`.\n\n"
            "| made | DeepSpeed | tpx | ratio |\n|---|---|---|---|\n" + "\n".join(peaks)
        )
    print(text)
    if options.write:
        from results import put

        put("reshard beside DeepSpeed's converters", text)


if __name__ == "__main__":
    main()
