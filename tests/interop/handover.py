# SPDX-License-Identifier: Apache-2.0
"""A trainer with FSDP2 leaves its state to `tpx hold`, and trainers in the same and in other layouts take it: they have the bits of
the way by disk (dcp.save, tpx reshard, dcp.load), and compute the same losses."""
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.state_dict import set_state_dict

from ranks import on_ranks

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
sys.path += [str(EXAMPLES), str(EXAMPLES / "elastic")]
import tpx_handover  # noqa: E402
import train  # noqa: E402

CASES = [("fsdp=4", 1), ("tp=2,fsdp=2", 2), ("fsdp=3", 1), ("fsdp=1", 1)]


def _made(tp):
    model = train.make()
    train.parallelize(model, tp, dist.get_world_size() // tp)
    return model, train.optimizer_of(model)


def _step(model, optimizer, tp, samples=(1, 2, 3)):
    optimizer.zero_grad()
    loss = train.step_sharded(model, [(0, samples)], 1, dist.get_world_size() // tp, tp)
    optimizer.step()
    return loss


def _leave(folder):
    """Trains two steps, and leaves the state on disk and with a keeper."""
    model, optimizer = _made(1)
    for samples in ((4, 5), (6, 7)):
        _step(model, optimizer, 1, samples)
    state = train.state_of(model, optimizer) | {"steps": 2}
    dcp.save(state, checkpoint_id=f"{folder}/saved")
    tpx_handover.export(state, "live", dist.get_rank(), dist.get_world_size(), iteration=2, layout=f"fsdp={dist.get_world_size()}")


def _tensors(value, path=""):
    """The local tensors of a state dict, by path."""
    if isinstance(value, torch.Tensor):
        return {path: tpx_handover.shard_of(value)[1]}
    if isinstance(value, dict):
        return {key: one for name, item in value.items() for key, one in _tensors(item, f"{path}/{name}").items()}
    return {}


def _resumed(tp, fill):
    """State and next loss of a trainer whose state `fill` fills."""
    model, optimizer = _made(tp)
    state = train.state_of(model, optimizer) | {"steps": 0}
    for tensor in _tensors(state).values():
        tensor.fill_(float("nan"))
    fill(state)
    set_state_dict(model, optimizer, model_state_dict=state["model"], optim_state_dict=state["optimizer"])
    found = {name: tensor.clone() for name, tensor in _tensors(state).items()}
    return found, state["optimizer"]["param_groups"], state["steps"], _step(model, optimizer, tp)


def _resume(folder, name, tp):
    """What differs between a trainer that takes the state and one that loads it."""
    taken, *others = _resumed(tp, lambda state: tpx_handover.attach(name, dist.get_rank(), verify=True).load(state))
    loaded, *expected = _resumed(tp, lambda state: dcp.load(state, checkpoint_id=folder))
    faults = [f"{key} differs" for key, tensor in loaded.items() if not torch.equal(taken[key], tensor) or tensor.isnan().any()]
    return faults + ([] if others == expected and len(loaded) > 60 else [f"{others} instead of {expected}, {len(loaded)} tensors"])


def _refused(name, words):
    try:
        tpx_handover.attach(name, dist.get_rank(), wait=0).load({"model": {"norm.weight": torch.zeros(3)}})
    except tpx_handover.HandoverError as error:
        return [] if all(word in str(error) for word in words) else [f"refused with '{error}'"]
    return ["not refused"]


def main(tpx):
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        os.environ["XDG_RUNTIME_DIR"] = folder

        def run(*words):
            waits = ["--timeout", "none"] if words[0] == "hold" and "--name" in words else []
            subprocess.run([tpx, *words, *waits, "--quiet"], check=True, stdout=subprocess.DEVNULL)

        def check(what, answers):
            nonlocal failed
            faults = [f"rank {rank}: {fault}" for rank, answer in enumerate(answers) for fault in answer]
            failed += bool(faults)
            print("\n  ".join([f"{'FAIL' if faults else 'ok'}: {what}", *faults[:8]]))

        run("hold", "--name", "live", "--empty")
        on_ranks(4, _leave, folder)
        run("verify", f"{folder}/saved", "hold:live")
        for layout, tp in CASES:
            run("reshard", f"{folder}/saved", f"{folder}/{layout}", "--to", layout)
            run("hold", "hold:live", "--name", "next", "--to", layout)
            ranks = {"fsdp=4": 4, "tp=2,fsdp=2": 4, "fsdp=3": 3, "fsdp=1": 1}[layout]
            check(f"fsdp=4 to {layout} in memory", on_ranks(ranks, _resume, f"{folder}/{layout}", "next", tp))
            run("hold", f"{folder}/{layout}", "--name", "next")
            check(f"{layout} from disk", on_ranks(ranks, _resume, f"{folder}/{layout}", "next", tp))
        run("reshard", "hold:live", f"{folder}/out", "--to", "fsdp=2", "--hold", "600")
        check("fsdp=4 to fsdp=2 with --hold", on_ranks(2, _resume, f"{folder}/out", "out", 1))
        check("the same layout again", on_ranks(4, _resume, f"{folder}/saved", "live", 1))
        check("taken twice", on_ranks(4, _refused, "live", ["hold:live: rank", "was taken by process"]))
        run("hold", "--release", "live")
        check("released", on_ranks(1, _refused, "live", ["hold:live: nothing is held on this host"]))
        run("hold", f"{folder}/saved", "--name", "other")
        check("another layout", on_ranks(4, _refused, "other", ["'model.norm.weight'", "no shard [3] of torch.float32 at [0] is held"]))
    return 1 if failed else 0
