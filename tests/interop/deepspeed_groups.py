# SPDX-License-Identifier: Apache-2.0
"""DeepSpeed's engine loads universal checkpoints that tpx makes of other optimizers' state: of torch.save files and PyTorch
DCP with several parameter groups, and of a DeepSpeed run without ZeRO. Each group of the engine must get its own settings,
and each parameter its own master weight and moments."""
import os
import subprocess
import sys
import tempfile
from pathlib import Path

SKIPPED = 77
DATA = Path(__file__).resolve().parents[2] / "testdata"
STATES = ("fp32", "exp_avg", "exp_avg_sq")


def by_name(model, state, masters):
    """Name -> state -> tensor, and the settings of each group, of an optimizer that numbers its parameters."""
    held, settings = {}, []
    for g, group in enumerate(state["param_groups"]):
        settings.append((group["lr"], group["weight_decay"], len(group["params"])))
        for k, number in enumerate(group["params"]):
            shape = state["state"][number]["exp_avg"].shape
            names = [name for name, value in model.items() if value.shape == shape]
            assert len(names) == 1, names
            master = masters[g][k] if masters else model[names[0]]
            held[names[0]] = {"fp32": master, **{s: state["state"][number][s] for s in STATES[1:]}}
    return held, settings


def by_vector(model, optimizer, groups):
    """The same for FP16_Optimizer, which stores one vector for each of `groups`, which are lists of names."""
    held, settings, state = {}, [], optimizer["optimizer_state_dict"]
    for g, (group, names) in enumerate(zip(state["param_groups"], groups)):
        settings.append((group["lr"], group["weight_decay"], len(names)))
        at = 0
        for name in names:
            end = at + model[name].numel()
            vectors = {"fp32": optimizer["fp32_groups_flat"][g], **{s: state["state"][g][s] for s in STATES[1:]}}
            held[name] = {what: vector[at:end].detach().view(model[name].shape) for what, vector in vectors.items()}
            at = end
    return held, settings


def engine_of(groups, sizes, dtype):
    """A ZeRO 1 engine with groups of these names, whose settings and values all differ from the checkpoint's."""
    import deepspeed
    import torch

    torch.manual_seed(99)
    model = torch.nn.Sequential(*[torch.nn.Linear(a, b) for a, b in sizes])
    named = dict(model.named_parameters())
    given = [{"params": [named[name] for name in names], "lr": 0.5, "weight_decay": 0.25} for names in groups]
    config = {"train_batch_size": 1, "zero_optimization": {"stage": 1}, "checkpoint": {"load_universal": True},
              "zero_allow_untested_optimizer": True}  # fmt: skip
    if dtype == torch.bfloat16:
        config["bf16"] = {"enabled": True}
    return deepspeed.initialize(model=model, optimizer=torch.optim.AdamW(given), config=config)[0]


def faults_of(folder, held, settings, groups, sizes, dtype):
    import torch
    from deepspeed.utils import safe_get_full_fp32_param, safe_get_full_optimizer_state

    engine = engine_of(groups, sizes, dtype)
    engine.load_checkpoint(str(folder))
    found = [(g["lr"], g["weight_decay"], len(names)) for g, names in zip(engine.optimizer.param_groups, groups)]
    faults = [] if found == settings else [f"groups have {found} instead of {settings}"]
    for name, parameter in engine.module.named_parameters():
        for state in STATES:
            value = safe_get_full_fp32_param(parameter) if state == "fp32" else safe_get_full_optimizer_state(parameter, state)
            if not torch.equal(value.reshape(parameter.shape).float(), held[name][state].float()):
                faults.append(f"{name}: another {state}")
    return faults


def main(tpx):
    os.environ.update(DS_ACCELERATOR="cpu", RANK="0", LOCAL_RANK="0", WORLD_SIZE="1", MASTER_ADDR="127.0.0.1", MASTER_PORT="29743")
    try:
        import deepspeed
    except ImportError:
        print("skipped: DeepSpeed is not installed; scripts/interop-venv.sh installs it")
        return SKIPPED
    import torch

    deepspeed.init_distributed(dist_backend="gloo")
    file = torch.load(DATA / "training/groups.pt", weights_only=False)
    groups = by_name(file["model"], file["optimizer"], None)
    file = torch.load(DATA / "deepspeed/stage0-bf16/global_step2/mp_rank_00_model_states.pt", weights_only=False)
    stage0 = by_name(file["module"], file["optimizer"]["optimizer_state_dict"], file["optimizer"]["fp32_groups"])
    file = torch.load(DATA / "deepspeed/stage0-fused/global_step2/mp_rank_00_model_states.pt", weights_only=False)
    fused = by_vector(file["module"], file["optimizer"], [["0.weight", "1.weight"], ["0.bias", "1.bias"]])
    names = [["0.bias", "1.bias", "2.bias"], ["0.weight"], ["1.weight"], ["2.weight"]]
    failed = 0
    with tempfile.TemporaryDirectory() as scratch:
        made = Path(scratch, "dcp")
        cases = [("groups.pt", DATA / "training/groups.pt", ["dcp", "--to", "fsdp=2", "--dialect", "keep"], made, None),
                 ("groups.pt", DATA / "training/groups.pt", ["universal"], Path(scratch, "a"), groups),
                 ("groups.pt as DCP", made, ["universal"], Path(scratch, "b"), groups),
                 ("stage0-bf16", DATA / "deepspeed/stage0-bf16", ["universal"], Path(scratch, "c"), stage0),
                 ("stage0-fused", DATA / "deepspeed/stage0-fused", ["universal"], Path(scratch, "d"), fused)]  # fmt: skip
        for what, source, form, out, wanted in cases:
            layout = [] if "--to" in form else ["--to", "tp=1"]
            done = subprocess.run([tpx, "reshard", source, out, "-q", *layout, "--format", *form], capture_output=True, text=True)
            faults = [] if done.returncode == 0 else [done.stderr]
            if wanted and not faults:
                own = names if wanted is groups else [["0.weight", "1.weight"], ["0.bias", "1.bias"]]
                sizes = [(3, 4), (4, 5), (5, 6)] if wanted is groups else [(3, 4), (4, 5)]
                dtype = torch.float32 if wanted is groups else torch.bfloat16
                faults = faults_of(out, *wanted, own, sizes, dtype)
            failed += bool(faults)
            print(f"{'FAIL' if faults else 'ok'}: {what} as {form[0]}", flush=True)
            for line in faults[:8]:
                print(f"  {line}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
