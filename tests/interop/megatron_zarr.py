# SPDX-License-Identifier: Apache-2.0
"""Tests the zarr format against Megatron-core 0.15.3. Array files that tpx writes must equal those of Megatron-core for the same
state and layout, and Megatron-core must load them. tpx must find the same state in the checkpoints of all optimizer types.
scripts/interop-venv.sh installs this release, the last with the format, beside the newer one."""
import os
import sys
import tempfile
from pathlib import Path

RELEASE = Path(sys.prefix, "megatron-core-0.15")
sys.path.insert(0, str(RELEASE))
os.environ["TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD"] = "1"  # torch.load's default when this release was made

import numpy  # noqa: E402
import torch.distributed as dist  # noqa: E402

numpy.product = numpy.prod  # its name until NumPy 2

import load_megatron as megatron  # noqa: E402
import megatron_precision as precision  # noqa: E402
import megatron_steps as steps  # noqa: E402
from digests import read  # noqa: E402
from outcomes import Outcomes  # noqa: E402
from ranks import on_ranks, queue_of_rank  # noqa: E402
from run import DATA, FIXTURES  # noqa: E402

from megatron.core import dist_checkpointing  # noqa: E402
from megatron.core.dist_checkpointing.strategies import filesystem_async  # noqa: E402

# Optimizer kinds that are saved in only one of the formats: the zarr backend cannot store buckets, and other tests read
# cells of torch_dist.
BACKENDS = {"dp_reshardable": ["torch_dist"], "fully_sharded_model_space": ["zarr"]}
WRITTEN = {  # by name: ranks, degrees, kind of optimizer
    "plain": (1, {}, None),
    "plain-tp2pp2": (4, {"tp": 2, "pp": 2}, None),
    "plain-pp2": (2, {"pp": 2}, None),
    "whole-dp2": (2, {}, "fully_reshardable"),
    "whole-tp2dp2": (4, {"tp": 2}, "fully_reshardable"),
    "cells-dp2": (2, {}, "fully_sharded_model_space"),
    "cells-tp2dp2": (4, {"tp": 2}, "fully_sharded_model_space"),
    "buckets-tp2dp2": (4, {"tp": 2}, "dp_reshardable"),
}
LAYOUTS = {"plain": "tp=1", "plain-tp2pp2": "tp=2,pp=2", "plain-pp2": "pp=2", "whole-dp2": "dp=2", "whole-tp2dp2": "tp=2,dp=2"}


def write(out, model, degrees, kind):
    """One state in OUT/zarr and OUT/torch_dist."""
    filesystem_async._results_queue = queue_of_rank()
    chunks, _, optimizer = steps._set_up(model, distributed=kind is not None, **degrees)
    precision.fill(model, chunks, optimizer, kind is not None)
    args = precision.args_of(model, degrees, kind is not None)
    common = {"args": args, "checkpoint_version": 3.0, "iteration": 10}
    for backend in BACKENDS.get(kind, ("zarr", "torch_dist")):
        args.ckpt_format = backend
        state, metadata = steps._state(chunks, optimizer, kind, False)
        folder = Path(out, backend, "iter_0000010")
        folder.mkdir(parents=True, exist_ok=True)
        Path(out, backend, "latest_checkpointed_iteration.txt").write_text("10")
        dist.barrier()
        dist_checkpointing.save(state | common, str(folder), (backend, 1), content_metadata=metadata)


def arrays(root):
    """All files except those of torch.save and zarr's locks, by path."""
    files = (path for path in root.rglob("*") if path.is_file() and path.suffix != ".pt")
    return {str(path.relative_to(root)): path.read_bytes() for path in files if ".sync" not in str(path)}


def same_arrays(ours, theirs):
    ours, theirs = arrays(ours), arrays(theirs)
    faults = [f"{path}: on one side only" for path in sorted(ours.keys() ^ theirs.keys())]
    return faults + [f"{path}: differs" for path in sorted(ours.keys() & theirs.keys()) if ours[path] != theirs[path]]


def reshard(tpx, source, out, layout, kind, *more):
    status, said = steps._run(tpx, "reshard", source, out, "--to", layout, "--format", kind, "--quiet", *more)
    return [said] if status else []


def made_of(tpx, source, like, model, folder):
    """Faults of tpx's conversion of `source` to the layout in which Megatron-core wrote `like`."""
    ranks, degrees, kind = WRITTEN[like]
    distributed = kind is not None
    with tempfile.TemporaryDirectory() as scratch:
        out = Path(scratch, "out")
        optimizer = ["--set", f"use_distributed_optimizer={str(distributed).lower()}"]
        faults = reshard(tpx, source, out, LAYOUTS[like], "zarr", *optimizer)
        theirs = folder / like / "zarr"
        return faults or same_arrays(out, theirs) + precision.same_loaded(out, theirs, ranks, model, degrees, distributed)


def models():
    """Checkpoint, layout of the output, what it must contain, degrees of the loads, options."""
    small = DATA / "llama-small"
    holds = small / "megatron-tp2pp2.json"
    # Megatron-core cannot load the vocabulary on a rank whose part is only padding, as with tp=4 after tp=1 was saved.
    degrees = [{}, {"tp": 2, "pp": 2}, {"pp": 4}, {"tp": 2, "pp": 2, "vpp": 2}]
    for to in ("tp=1", "pp=4", "tp=2,pp=2,vpp=2"):
        yield small / "megatron-tp2pp2", to, holds, degrees, []
    yield small / "megatron-tp2pp2", "tp=4", holds, [*degrees, {"tp": 4}], []
    yield small / "hf", "tp=2,pp=2", holds, degrees, ["--set", "make_vocab_size_divisible_by=16"]
    if FIXTURES.is_dir():
        uneven = FIXTURES / "megatron/uneven-small-dist-tp1pp2-first2"
        yield uneven / "ckpt", "pp=4,first=1,last=2", uneven / "fixture.json", [{"pp": 2, "first": 2}, {"pp": 4, "first": 1, "last": 2}], []
        for name, to in {"tp2pp1": "dp=4,ep=4", "tp1pp2ep2dp2": "tp=2,dp=2,ep=2"}.items():
            experts = FIXTURES / "megatron" / f"moe-small-dist-{name}"
            yield experts / "ckpt", to, experts / "fixture.json", [{}, {"dp": 2, "ep": 2}, {"tp": 2, "pp": 2}], []


def loaded(tpx, source, to, holds, degrees, more):
    """Faults of the model that Megatron-core loads from tpx's conversion of `source`."""
    expected = read(holds)
    with tempfile.TemporaryDirectory() as scratch:
        out = Path(scratch, "out")
        faults = reshard(tpx, source, out, to, "zarr", *more)
        for one in degrees if not faults else []:
            faults += [f"loaded under {one}: {line}" for line in megatron.check(str(out), expected, **one)]
        return faults or changed_chunk(out, expected, degrees[0])


def changed_chunk(out, expected, degrees):
    """Faults of this test itself: whether it finds a changed chunk in the checkpoint `out`."""
    chunk = next(out.rglob("decoder.final_layernorm.weight/0"), None)
    if chunk is None:
        return ["no chunk of decoder.final_layernorm.weight"]
    chunk.write_bytes(bytes(len(chunk.read_bytes())))
    found = megatron.check(str(out), expected, **degrees)
    return [] if any("final_layernorm" in line for line in found) else [f"the loader does not see a changed chunk: {found}"]


def main(tpx):
    if not RELEASE.is_dir():
        print("skipped: no Megatron-core with the zarr backend here; scripts/interop-venv.sh installs it")
        return 77
    outcomes = Outcomes()
    report = outcomes.report

    for source, to, *others in models():
        report(f"{source.parent.name}/{source.name} as {to}", loaded(tpx, source, to, *others))
    if not FIXTURES.is_dir():
        print("skipped: models with uneven stages and with experts; their fixtures are missing")
    model = precision.MODEL | {"dtype": "bf16"}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for case, (ranks, degrees, kind) in WRITTEN.items():
            on_ranks(ranks, write, folder / case, model, degrees, kind)
        sources = [path.parent for path in sorted(folder.glob("*/*/latest_checkpointed_iteration.txt"))]
        for source in sources:
            status, said = steps._run(tpx, "verify", folder / "plain/torch_dist", source)
            report(f"{source.relative_to(folder)} is the same state", [said] if status else [])
        layouts = list(LAYOUTS)
        for number, source in enumerate(sources):
            for like in (layouts[number % len(layouts)], layouts[(number + 2) % len(layouts)]):
                report(f"{source.relative_to(folder)} as {like}", made_of(tpx, source, like, model, folder))
    return outcomes.status()
