# SPDX-License-Identifier: Apache-2.0
"""A trainer with FSDP2 leaves its state with `tpx hold`, and trainers in the same and in other layouts take it. They
get the same bits as through the disk (dcp.save, tpx reshard, dcp.load), and compute the same losses."""
import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy
import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.state_dict import set_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Partial, Shard, distribute_tensor

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
    loss = train.step_sharded(model, [(0, samples)], train.new_streams([0]), 1, dist.get_world_size() // tp, tp)
    optimizer.step()
    return loss


def _leave(folder):
    """Trains two steps, and leaves the state on disk and with a keeper."""
    model, optimizer = _made(1)
    for samples in ((4, 5), (6, 7)):
        _step(model, optimizer, 1, samples)
    state = train.state_of(model, optimizer, {}) | {"steps": 2}
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
    """The state and the next loss of a trainer whose state `fill` loads."""
    model, optimizer = _made(tp)
    state = train.state_of(model, optimizer, {}) | {"steps": 0}
    for tensor in _tensors(state).values():
        tensor.fill_(float("nan"))
    fill(state)
    set_state_dict(model, optimizer, model_state_dict=state["model"], optim_state_dict=state["optimizer"], options=train.BY_NAME)
    found = {name: tensor.clone() for name, tensor in _tensors(state).items()}
    groups = {key: value for key, value in state["optimizer"].items() if key.startswith("param_groups.")}
    assert len(groups) > 20, groups
    return found, groups, state["steps"], _step(model, optimizer, tp)


def _resume(folder, name, tp):
    """The differences between a trainer that takes the state and one that loads it."""
    taken, *others = _resumed(tp, lambda state: tpx_handover.attach(name, dist.get_rank(), verify=True).load(state))
    loaded, *expected = _resumed(tp, lambda state: dcp.load(state, checkpoint_id=folder))
    faults = [f"{key} differs" for key, tensor in loaded.items() if not torch.equal(taken[key], tensor) or tensor.isnan().any()]
    return faults + ([] if others == expected and len(loaded) > 60 else [f"{others} instead of {expected}, {len(loaded)} tensors"])


def _square(dim):
    """The same 8x8 tensor on each of the ranks, split along `dim`."""
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    return {"w": distribute_tensor(torch.arange(64.0).view(8, 8), mesh, [Shard(dim)])}


def _leave_rows():
    tpx_handover.export(_square(0), "rows", dist.get_rank(), dist.get_world_size(), iteration=1)


def _other_axis(name):
    """Rank 0 holds [4, 8] at [0, 0] and wants [8, 4] at [0, 0]: as many elements with the same first index."""
    columns, rows = _square(1), _square(0)
    held = tpx_handover.attach(name, dist.get_rank())
    try:
        held.load(columns)
        faults = [f"columns were filled with rows: {tpx_handover.shard_of(columns['w'])[1].tolist()}"]
    except tpx_handover.HandoverError as error:
        faults = [] if "no torch.float32 shard of shape [8, 4] at" in str(error) else [f"refused with '{error}'"]
    try:
        held.load({"w": torch.zeros(4, 8)})  # of rank 0, also that of a whole tensor of this shape
        faults.append("a shard was taken for a whole tensor")
    except tpx_handover.HandoverError:
        pass
    tpx_handover.shard_of(rows["w"])[1].zero_()
    held.load(rows)
    return faults if torch.equal(rows["w"].full_tensor(), _square(0)["w"].full_tensor()) else [*faults, "rows differ"]


def _no_leaks(name):
    """Attempts that the keeper refuses leave no open files in this process."""
    before, faults = len(os.listdir("/proc/self/fd")), []
    for _ in range(3):
        try:
            tpx_handover.export({"w": torch.ones(4)}, name, 5, 2, iteration=1)
            faults.append("rank 5 of 2 was held")
        except tpx_handover.HandoverError:
            pass
    try:
        tpx_handover.export({"w": torch.ones(1).expand(1 << 46)}, name, 0, 1, iteration=1)
        faults.append("more state than memory was exported")
    except tpx_handover.HandoverError as error:
        faults += [] if "do not fit into memory" in str(error) else [f"refused with '{error}'"]
    partial = DTensor.from_local(torch.ones(4), init_device_mesh("cpu", (1,)), [Partial()])
    try:
        tpx_handover.export({"w": partial}, name, 0, 1, iteration=1)
        faults.append("partial sums were exported")
    except tpx_handover.HandoverError as error:
        faults += [] if str(error).startswith("'w': consists of partial sums") else [f"refused with '{error}'"]
    after = len(os.listdir("/proc/self/fd"))
    return faults if after == before else [*faults, f"{after} files are open instead of {before}"]


def _ending_keeper(name, process):
    """A keeper does not answer; then it is killed after a rank is mapped but before it is taken."""
    tpx_handover.export({"w": torch.arange(4.0)}, name, 0, 1, iteration=1)
    os.kill(process, signal.SIGSTOP)
    try:
        tpx_handover.attach(name, 0, wait=0)
        faults = ["a stopped keeper answered"]
    except tpx_handover.HandoverError as error:
        faults = [] if "no answer in 1 s" in str(error) else [f"refused with '{error}'"]
    os.kill(process, signal.SIGCONT)

    class Killing(tpx_handover.Held):
        def __init__(self, document, memory, keeper):
            super().__init__(document, memory, keeper)
            os.kill(process, signal.SIGKILL)

    tpx_handover.Held = Killing
    state = {"w": torch.zeros(4)}
    tpx_handover.attach(name, 0).load(state)
    return faults if state["w"].tolist() == [0, 1, 2, 3] else [*faults, f"{state} was loaded"]


def _again(name):
    """A state dict that does not fit leaves the state for the next one; values are those that dcp.load() would read."""
    state = {"w": torch.ones(4), "none": torch.empty(0, 3), "numpy": numpy.random.get_state(), "split": argparse.Namespace(k=1)}
    tpx_handover.export(state, name, 0, 1, iteration=1)
    faults = _refused(name, ["'w': no torch.float32 shard of shape [5]"], {"w": torch.zeros(5)})
    found = tpx_handover.attach(name, 0, wait=5).state_dict()
    same = found["numpy"][0] == "MT19937" and found["split"].k == 1 and found["none"].shape == (0, 3) and found["w"].tolist() == [1] * 4
    return faults if same else [*faults, f"{found} was held"]


def _refused(name, words, state=None):
    try:
        tpx_handover.attach(name, dist.get_rank(), wait=0).load(state or {"model": {"norm.weight": torch.zeros(3)}})
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
        check("released", on_ranks(1, _refused, "live", ["hold:live: no keeper has this name on this host"]))
        run("hold", f"{folder}/saved", "--name", "other")
        check("another layout", on_ranks(4, _refused, "other", ["'model.norm.weight'", "no torch.float32 shard of shape [3] at [0] of a tensor of shape [3] is held"]))
        run("hold", "--name", "rows", "--empty")
        check("no open files after refusals", on_ranks(1, _no_leaks, "rows"))
        check("refused state stays", on_ranks(1, _again, "rows"))
        on_ranks(2, _leave_rows)
        check("split along another axis", on_ranks(2, _other_axis, "rows"))
        run("hold", "--release", "rows")
        run("hold", "--name", "ending", "--empty")
        listed = json.loads(subprocess.run([tpx, "hold", "--list", "--json"], check=True, capture_output=True).stdout)
        process = next(one["process"] for one in listed["keepers"] if one["name"] == "ending")
        check("a keeper that does not answer, or is killed", on_ranks(1, _ending_keeper, "ending", process))
    return 1 if failed else 0
