# SPDX-License-Identifier: Apache-2.0
"""DeepSpeed's engine trains a small model, and continues from checkpoints that tpx converted.

All ranks get the same batch, there is no clipping, and the numbers of ranks are powers of two, so a step computes the
same bits with any number of ranks. Each run that continues must have the same loss, master weights and moments as the
run whose checkpoint was not converted.
"""
import hashlib
import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path

SKIPPED = 77
VOCABULARY, WIDTH, EXPERTS = 61, 23, 4


@dataclass
class Run:
    """An engine in a layout: optionally loads a checkpoint, makes steps, optionally saves."""

    name: str
    dp: int
    zero: int
    load: str = ""  # a folder
    universal: bool = False
    steps: int = 1
    save: str = ""
    options: dict = field(default_factory=dict)  # of zero_optimization
    dtype: str = "bf16"
    accumulate: str = ""  # "fp32" makes bf16 and ZeRO 1 use BF16_Optimizer
    ep: int = 0  # number of ranks across which EXPERTS experts are distributed; 0: no experts
    llama: bool = False  # transformers' Llama is trained


LLAMA = dict(hidden_size=32, intermediate_size=40, num_hidden_layers=4, num_attention_heads=4, num_key_value_heads=2, vocab_size=VOCABULARY, tie_word_embeddings=False)


def llama():
    import transformers
    from torch import nn

    class Llama(transformers.LlamaForCausalLM):
        def forward(self, ids, labels):
            return nn.functional.cross_entropy(super().forward(input_ids=ids).logits.float().flatten(0, 1), labels.flatten())

    return Llama(transformers.LlamaConfig(**LLAMA))


def model(ep):
    import torch
    from torch import nn

    class Experts(nn.Module):
        def __init__(self):
            from deepspeed.moe.layer import MoE

            super().__init__()
            self.moe = MoE(WIDTH, nn.Sequential(nn.Linear(WIDTH, 9), nn.Tanh(), nn.Linear(9, WIDTH)), num_experts=EXPERTS, ep_size=ep, k=1, use_rts=False)

        def forward(self, x):
            return x + self.moe(x)[0]

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm, self.up, self.down = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 31), nn.Linear(31, WIDTH)
            self.register_buffer("scale", torch.tensor([0.5]))

        def forward(self, x):
            return x + self.scale.to(x.dtype) * self.down(torch.tanh(self.up(self.norm(x))))

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = nn.Embedding(VOCABULARY, WIDTH)
            self.place = nn.Parameter(torch.zeros(7, WIDTH), requires_grad=False)
            self.blocks = nn.ModuleList([Block(), Experts() if ep else Block()])
            self.head = nn.Linear(WIDTH, VOCABULARY, bias=False)
            self.head.weight = self.embed.weight

        def forward(self, ids, labels):
            x = self.embed(ids) + self.place[: ids.shape[1]]
            for block in self.blocks:
                x = block(x)
            return nn.functional.cross_entropy(self.head(x).float().flatten(0, 1), labels.flatten())

    return Net()


def begin(net):
    """Experts of all ranks start with equal weights, and get different tokens."""
    import torch

    with torch.no_grad():
        for number, value in enumerate(net.parameters()):
            value.copy_(torch.randn(value.shape, generator=torch.Generator().manual_seed(number)) * 0.1 + 0.01)
    return net


def engine_of(run):
    import deepspeed
    import torch

    config = {
        "train_batch_size": 2 * run["dp"],
        "train_micro_batch_size_per_gpu": 2,
        "zero_optimization": {"stage": run["zero"], **run["options"]},
        "zero_allow_untested_optimizer": True,
    }
    if run["dtype"] != "f32":
        config[run["dtype"]] = {"enabled": True}
    if run["dtype"] == "fp16":
        from deepspeed.accelerator import get_accelerator

        config["fp16"].update(initial_scale_power=6)
        type(get_accelerator()).is_fp16_supported = lambda self: True  # CPUs support it, but DeepSpeed says that they do not
    if run["accumulate"]:
        config["data_types"] = {"grad_accum_dtype": run["accumulate"]}
    if run["universal"]:
        config["checkpoint"] = {"load_universal": True}
    net = begin(llama() if run["llama"] else model(run["ep"]))
    trained = [p for p in net.parameters() if p.requires_grad]
    groups = [{"params": [p for p in trained if p.dim() > 1], "weight_decay": 0.1}, {"params": [p for p in trained if p.dim() == 1], "lr": 2e-3, "weight_decay": 0.0}]
    if run["ep"]:
        from deepspeed.moe.utils import split_params_into_different_moe_groups_for_optimizer

        groups = split_params_into_different_moe_groups_for_optimizer({"params": trained, "name": "all"})
    optimizer = torch.optim.AdamW(groups, lr=1e-2)
    return deepspeed.initialize(model=net, optimizer=optimizer, config=config, dist_init_required=False)[0]


def global_name(name, ep):
    """The global name of a parameter: names of expert parameters contain the expert's number on its rank."""
    import torch

    before, word, rest = name.partition("deepspeed_experts.")
    if not word:
        return name
    number, _, after = rest.partition(".")
    return f"{before}{word}{int(number) + torch.distributed.get_rank() % ep * (EXPERTS // ep)}.{after}"


def state(engine, ep):
    """Digests of master weights and moments, by DeepSpeed's own accessors."""
    import torch
    from deepspeed.utils import safe_get_full_fp32_param, safe_get_full_optimizer_state

    optimizer = engine.optimizer
    if hasattr(optimizer, "_hp_optimizer_states_linked"):
        optimizer._hp_optimizer_states_linked = False  # 0.19.8 links the first group only
        optimizer._lazy_init_hp_params_optimizer_state()
    found = {}
    for name, parameter in engine.module.named_parameters():
        if parameter.requires_grad:
            found[f"{name}/fp32"] = safe_get_full_fp32_param(parameter)
            for key in ("exp_avg", "exp_avg_sq"):
                found[f"{name}/{key}"] = safe_get_full_optimizer_state(parameter, key)
    found = {global_name(k, ep): hashlib.sha256(v.float().flatten().contiguous().numpy().tobytes()).hexdigest() for k, v in found.items()}
    if ep:
        everybodys = [None] * torch.distributed.get_world_size()
        torch.distributed.all_gather_object(everybodys, found)
        for others in everybodys:
            assert all(found.setdefault(key, value) == value for key, value in others.items()), "ranks differ"
    return found


def worker(rank, runs, folder):
    import deepspeed
    import torch

    torch.set_num_threads(1)
    # C++ code for inference, which would take a minute to compile. In sys.modules, because the attribute deepspeed.comm.torch is PyTorch.
    sys.modules["deepspeed.comm.torch"].build_shm_op = lambda: None
    dp = runs[0]["dp"]
    # The ranks meet through a file. DeepSpeed names its shared memory by address and port, which are not opened.
    os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(dp), MASTER_ADDR=Path(folder).name, MASTER_PORT="0")
    deepspeed.init_distributed(dist_backend="gloo", verbose=False, init_method=f"file://{folder}/meet", rank=rank, world_size=dp)
    results = {}
    for run in runs:
        engine = engine_of(run)
        if run["load"]:
            path, _ = engine.load_checkpoint(run["load"])
            assert path is not None, "load_checkpoint found nothing"
        loaded = state(engine, run["ep"]) if run["load"] else {}
        losses = []
        for _ in range(run["steps"]):
            draw = torch.Generator().manual_seed(engine.global_steps)
            ids, labels = (torch.randint(0, VOCABULARY, (2, 5), generator=draw) for _ in range(2))
            loss = engine(ids, labels)
            engine.backward(loss)
            engine.step()
            losses.append(loss.item().hex())
            if run["save"] and engine.global_steps == 2:
                engine.save_checkpoint(run["save"])
                loaded = state(engine, run["ep"])
        results[run["name"]] = {"loaded": loaded, "state": state(engine, run["ep"]), "loss": losses[-1], "steps": engine.global_steps}
        engine.destroy()
        torch.distributed.barrier()
    if rank == 0:
        Path(folder, "results.json").write_text(json.dumps(results))
    end_together(rank, dp, folder)


def end_together(rank, count, folder):
    """Ends this rank once all ranks are here. Destroying a gloo process group sometimes aborts the process with
    "terminate called without an active exception", so nothing is destroyed."""
    Path(folder, f"done-{rank}").touch()
    for _ in range(600):
        if all(Path(folder, f"done-{other}").exists() for other in range(count)):
            break
        time.sleep(0.1)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


def train(runs):
    """Name -> result. Runs with the same number of ranks share their processes, except those of ZeRO 3, which changes
    torch's functions permanently."""
    found = {}
    for dp, zero3 in sorted({(run.dp, run.zero == 3) for run in runs}):
        found |= train_together([run for run in runs if (run.dp, run.zero == 3) == (dp, zero3)])
    return found


def import_frameworks(runs):
    """Imports what the ranks of `runs` need before they are forked, including what torch's optimizers import when they are made."""
    import torch._dynamo  # noqa: F401
    import uncompiled  # noqa: F401
    import deepspeed  # noqa: F401

    if any(run.llama for run in runs):
        import transformers

        transformers.LlamaForCausalLM  # imported when it is first named


def train_together(runs):
    import torch.multiprocessing as multiprocessing

    import_frameworks(runs)
    for attempt in (1, 2):
        with tempfile.TemporaryDirectory() as folder:
            try:
                arguments = ([asdict(run) for run in runs], folder)
                multiprocessing.start_processes(worker, args=arguments, nprocs=runs[0].dp, start_method="fork")
                return json.loads(Path(folder, "results.json").read_text())
            except multiprocessing.ProcessExitedException as crash:
                # Threads of gloo occasionally abort a rank. The caller judges the results of the ranks.
                if attempt == 2 or crash.signal_name != "SIGABRT":
                    raise
                print(f"a rank was aborted, once more: {crash}", flush=True)


# Training runs: name, ranks, stage, and special options.
SOURCES = [
    Run("zero1", 2, 1, steps=3),
    Run("zero2", 2, 2, steps=3, options={"round_robin_gradients": True}),
    Run("fp16", 2, 1, steps=3, dtype="fp16"),
    Run("zero3", 2, 3, steps=3, options={"sub_group_size": 700}),
    Run("bf16opt", 2, 1, steps=3, accumulate="fp32"),
    Run("moe", 2, 1, steps=3, ep=2),
]
# Conversions by tpx: the source, the result, and the run that loads it; a source may itself be a conversion.
MADE = [
    ("a", "zero1", "dp=4,zero=2", "deepspeed", {"dp": 4, "zero": 2}),
    ("b", "zero1", "dp=1,zero=3", "deepspeed", {"dp": 1, "zero": 3}),
    ("c", "zero1", "dp=2", "universal", {"dp": 4, "zero": 1, "universal": True}),
    ("d", "c", "dp=4,zero=3", "deepspeed", {"dp": 4, "zero": 3}),
    ("e", "zero2", "dp=4", "deepspeed", {"dp": 4, "zero": 2}),
    ("f", "e", "dp=2", "deepspeed", {"dp": 2, "zero": 2}),
    ("o", "fp16", "dp=4", "deepspeed", {"dp": 4, "zero": 1}),
    ("p", "fp16", "dp=2", "universal", {"dp": 2, "zero": 1, "universal": True}),
    ("g", "zero3", "dp=4", "deepspeed", {"dp": 4, "zero": 3}),
    ("h", "zero3", "dp=2,zero=1", "deepspeed", {"dp": 2, "zero": 1}),
    ("i", "zero3", "dp=2", "universal", {"dp": 4, "zero": 3, "universal": True}),
    ("j", "i", "dp=1,zero=2", "deepspeed", {"dp": 1, "zero": 2}),
    ("k", "bf16opt", "dp=4", "deepspeed", {"dp": 4, "zero": 1}),
    ("l", "bf16opt", "dp=2", "universal", {"dp": 1, "zero": 1, "universal": True}),
    ("m", "moe", "dp=4,ep=2", "deepspeed", {"dp": 4, "zero": 1, "ep": 2}),
    ("n", "moe", "dp=4,ep=4,zero=2", "deepspeed", {"dp": 4, "zero": 2, "ep": 4}),
]


def convert(tpx, source, out, layout, kind):
    done = subprocess.run([tpx, "reshard", source, out, "--to", layout, "--format", kind, "-q"], capture_output=True, text=True)
    return [] if done.returncode == 0 else [f"exit status {done.returncode}: {done.stderr.strip()}"]


def differences(found, wanted, run, origin):
    """All runs must start with the same state and the same loss, except that ZeRO 3 and experts on other ranks change
    the computation. Then a step computes the same bits with the same stage, unless f16 gradients are divided by more
    ranks."""
    same, states = ["steps"], ["loaded"]
    if (run.zero == 3) == (origin.zero == 3) and run.ep == origin.ep:
        same.append("loss")
    if run.zero == origin.zero and not run.ep and (run.dtype != "fp16" or run.dp == origin.dp):
        states.append("state")
    if run.universal and run.zero == 3:
        states = ["loaded"]  # DeepSpeed 0.19.8 uses the settings of the first group for all
    if run.options.get("round_robin_gradients") and run.dp != origin.dp:
        states = []  # DeepSpeed 0.19.8 returns partitions under the names of another order
    lines = [f"{when}: {key} differs" for when in states for key in wanted[when] if found[when].get(key) != wanted[when][key]]
    return lines + [f"{key}: {found[key]} instead of {wanted[key]}" for key in same if found[key] != wanted[key]]


def judge(loads, wanted):
    """Runs the loads, and counts those that continue differently from their original run."""
    failed = 0
    found = train([run for run, *_ in loads])
    for run, first, source, layout, kind in loads:
        faults = differences(found[run.name], wanted[first.name], run, first)
        failed += bool(faults)
        print(f"{'FAIL' if faults else 'ok'}: {source} as {kind} {layout}, loaded by {run.dp} ranks of ZeRO {run.zero}")
        for line in faults[:8]:
            print(f"  {line}")
    return failed


def main(tpx):
    os.environ["DS_ACCELERATOR"] = "cpu"
    try:
        import deepspeed  # noqa: F401
    except ImportError:
        print("skipped: DeepSpeed is not installed; scripts/interop-venv.sh installs it")
        return SKIPPED
    started, failed = time.time(), 0
    with tempfile.TemporaryDirectory() as scratch:
        for source in SOURCES:
            source.save = str(Path(scratch, source.name))
        wanted = train(SOURCES)
        sources = {source.name: source for source in SOURCES}
        loads = []
        for name, source, layout, kind, how in MADE:
            out = Path(scratch, name)
            first = sources[name] = sources[source]
            faults = convert(tpx, Path(scratch, source), out, layout, kind)
            if faults:
                print(f"FAIL: {source} as {kind} {layout}: {faults[0]}")
                failed += 1
                continue
            like = {"options": first.options if how["zero"] == first.zero else {}, "dtype": first.dtype, "accumulate": first.accumulate}
            loads.append((Run(name, load=str(out), **how, **like), first, source, layout, kind))
        failed += judge(loads, wanted)
    print(f"{time.time() - started:.0f} s")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
