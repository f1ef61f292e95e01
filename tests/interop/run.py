# SPDX-License-Identifier: Apache-2.0
"""run.py TPX FORMAT: reshards checkpoints of the real frameworks with TPX, and loads the result with a real framework.
In place of a format, FORMAT can be "families": models of all families that transformers creates; "megatron-logits": the
logits that Megatron-core computes with them; "megatron-bridge": their tensors from Megatron Bridge; "deepspeed": models
that DeepSpeed trains; "deepspeed-any": these in other frameworks' formats; "torch": files of torch.save; "handover":
state that trainers pass on in memory.

The checkpoints of testdata/ are always used; those under $TPX_FIXTURES (default: ../shared/fixtures next to the source
tree) too, if that folder exists.
"""
import logging
import os
import shutil
import subprocess
import sys
import tempfile
import time
import warnings
from dataclasses import dataclass, field
from pathlib import Path

warnings.filterwarnings("ignore")
logging.disable(logging.WARNING)

import digests  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
DATA = ROOT / "testdata"
FIXTURES = Path(os.environ.get("TPX_FIXTURES", ROOT / "../shared/fixtures"))


@dataclass
class Case:
    """Reshards `source` to the layout `to`; the output must contain the tensors in the JSON file `holds`."""

    source: Path
    to: str
    holds: Path
    ranks: int = 1  # number of tpx ranks
    load: list = field(default_factory=lambda: [{}])  # keyword arguments of each load
    config: Path | None = None  # config.json of the model, if the source has none
    more: list = field(default_factory=list)  # further options of tpx


def fixture(name):
    return FIXTURES / name / "ckpt", FIXTURES / name / "fixture.json"


def swapped(name, to):
    """Source, layout and digests of a case."""
    checkpoint, holds = fixture(name)
    return checkpoint, to, holds


def safetensors_cases():
    small, rope = DATA / "llama-small", DATA / "llama-rope"
    yield Case(small / "hf", "tp=1", small / "hf.json")
    yield Case(small / "megatron-tp2pp2", "tp=1", small / "hf.json", ranks=2, config=small / "hf/config.json")
    yield Case(rope / "dcp-fsdp2", "tp=1", rope / "hf.json", ranks=3, config=rope / "hf/config.json")
    yield Case(rope / "hf", "tp=1", rope / "hf.json", more=["--shard-size", "64KiB"])
    if FIXTURES.is_dir():
        for name in ("hf-qwen2-tied", "hf-llama-sharded"):
            checkpoint, holds = fixture(f"safetensors/{name}")
            yield Case(checkpoint, "tp=1", holds, more=["--shard-size", "32KiB"])


def dcp_cases():
    rope, small = DATA / "llama-rope", DATA / "llama-small"
    on_one_and_more = [{}, {"mesh_shape": (3,)}, {"mesh_shape": (2, 2)}]
    yield Case(rope / "dcp-fsdp2", "fsdp=3", rope / "dcp-fsdp2.json", ranks=2, load=on_one_and_more)
    yield Case(rope / "hf", "fsdp=2,tp=2", rope / "dcp-fsdp2.json", ranks=2, load=on_one_and_more)
    if FIXTURES.is_dir():
        layouts = {"fsdp2": "tp=2", "plain1": "fsdp=4", "fsdp2-tp2": "fsdp=3", "fsdp4": "fsdp=2,tp=2", "fsdp3": "tp=1"}
        for source, to in layouts.items():
            checkpoint, holds = fixture(f"dcp/llama-a-{source}")
            yield Case(checkpoint, to, holds, ranks=2, load=[{}, {"mesh_shape": (2, 2)}])


def torch_dist_cases():
    small = DATA / "llama-small"
    holds = small / "megatron-tp2pp2.json"
    degrees = [{}, {"tp": 2, "pp": 2}, {"tp": 4}, {"tp": 2, "pp": 2, "vpp": 2}, {"pp": 4}]
    for to in ("tp=1", "tp=4", "pp=4", "tp=2,pp=2,vpp=2"):
        yield Case(small / "megatron-tp2pp2", to, holds, ranks=2, load=degrees)
    padding = ["--set", "make_vocab_size_divisible_by=16"]
    yield Case(small / "hf", "tp=2,pp=2", holds, ranks=3, load=degrees, more=padding)
    yield Case(small / "hf", "tp=1", holds, load=degrees, more=padding)
    if FIXTURES.is_dir():
        checkpoint, holds = fixture("megatron/uneven-small-dist-tp1pp2-first2")
        uneven = [{"pp": 2, "first": 2}, {"pp": 4, "first": 1, "last": 2}]
        yield Case(checkpoint, "pp=4,first=1,last=2", holds, load=uneven)
        layouts = {"tp1pp1": "tp=2,pp=2", "tp1pp4": "tp=4", "tp4pp1": "tp=2", "tp2pp2vpp2": "pp=4"}
        for source, to in layouts.items():
            checkpoint, holds = fixture(f"megatron/llama-small-dist-{source}")
            yield Case(checkpoint, to, holds, ranks=2, load=degrees)
        gpt2 = [{}, {"tp": 2}, {"pp": 3}, {"tp": 2, "pp": 3}]
        padding = ["--set", "make_vocab_size_divisible_by=8"]
        yield Case(fixture("safetensors/hf-gpt2-small")[0], "tp=2,pp=3", fixture("megatron/gpt2-small-dist-tp1pp1")[1], load=gpt2, more=padding)
        yield Case(*swapped("megatron/gpt2-small-dist-tp2pp1", "pp=3"), load=gpt2)
        experts = [{}, {"dp": 2, "ep": 2}, {"tp": 2, "dp": 2, "ep": 4, "etp": 1}, {"tp": 2, "pp": 2}]
        for source, to in {"tp2pp1": "dp=4,ep=4", "tp1pp1ep4dp4": "tp=2,ep=2,etp=1", "tp1pp2ep2dp2": "tp=2,dp=2,ep=2"}.items():
            yield Case(*swapped(f"megatron/moe-small-dist-{source}", to), ranks=2, load=experts)


CASES = {"safetensors": safetensors_cases, "dcp": dcp_cases, "torch_dist": torch_dist_cases}


def loader(kind):
    if kind == "safetensors":
        import load_hf as module
    elif kind == "dcp":
        import load_dcp as module
    else:
        import load_megatron as module
    return module


def reshard(tpx, case, kind, out):
    command = [tpx, "reshard", str(case.source), str(out), "--to", case.to, "--format", kind, *case.more]
    if case.config:
        command += ["--config", str(case.config)]
    if case.ranks > 1:
        command = ["mpirun", "-n", str(case.ranks), *command]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        return [f"exit status {done.returncode}: {done.stderr.strip()}"]
    if case.config and not (out / "config.json").exists():
        shutil.copy(case.config, out)
    return []


def run(tpx, kind, case, folder):
    """The faults, one per line."""
    out = Path(folder) / "out"
    faults = reshard(tpx, case, kind, out)
    if faults:
        return faults
    expected = digests.read(case.holds)
    for arguments in case.load:
        label = ", ".join(f"{name} {value}" for name, value in arguments.items()) or "one rank"
        try:
            faults += [f"loaded on {label}: {line}" for line in loader(kind).check(str(out), expected, **arguments)]
        except Exception as error:
            faults.append(f"loading on {label}: {type(error).__name__}: {error}")
    # A loader that accepts wrong digests would also accept right ones without checking.
    name = sorted(expected["tensors"])[0]
    expected["tensors"][name] = {**expected["tensors"][name], "sha256": "0" * 64}
    expected.pop("tensors_vocab_trimmed", None)
    if not faults and not loader(kind).check(str(out), expected):
        faults.append("the loader does not see a wrong digest")
    return faults


def main():
    tpx, kind = sys.argv[1:]
    if kind == "megatron":
        import rank_files

        return rank_files.main(tpx)
    if kind == "deepspeed":
        import engine

        return engine.main(tpx)
    if kind == "deepspeed-any":
        import deepspeed_any

        return deepspeed_any.main(tpx)
    if kind == "torch":
        import torch_files

        return torch_files.main(tpx)
    if kind == "hdf5":
        import hdf5_files

        return hdf5_files.main(tpx)
    if kind == "megatron-steps":
        import megatron_steps

        return megatron_steps.main(tpx)
    if kind == "megatron-precision":
        import megatron_precision

        return megatron_precision.main(tpx)
    if kind == "megatron-layouts":
        import megatron_layouts

        return megatron_layouts.main(tpx)
    if kind == "deepspeed-groups":
        import deepspeed_groups

        return deepspeed_groups.main(tpx)
    if kind == "megatron-encoders":
        import encoders

        return encoders.main(tpx)
    if kind == "megatron-zarr":
        import megatron_zarr

        return megatron_zarr.main(tpx)
    if kind == "hf-models":
        import hf_models

        return hf_models.main(tpx)
    if kind == "megatron-logits":
        import megatron_logits

        return megatron_logits.main(tpx)
    if kind == "megatron-bridge":
        import megatron_bridge

        return megatron_bridge.main(tpx)
    if kind == "titan-names":
        import titan_names

        return titan_names.main(tpx)
    if kind == "rules":
        import rules

        return rules.main(tpx)
    if kind == "adapters":
        import adapters

        return adapters.main(tpx)
    if kind == "handover":
        import handover

        return handover.main(tpx)
    if kind == "quantized":
        import quantized

        return quantized.main(tpx)
    if kind == "families":
        import families

        return families.main(tpx)
    failed = 0
    for case in CASES[kind]():
        started = time.time()
        with tempfile.TemporaryDirectory() as folder:
            faults = run(tpx, kind, case, folder)
        failed += bool(faults)
        source = case.source.parent.name + "/" + case.source.name
        print(f"{'FAIL' if faults else 'ok'}: {source} to {case.to}, {len(case.load)} loads, {time.time() - started:.1f} s")
        for line in faults[:12]:
            print(f"  {line}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
