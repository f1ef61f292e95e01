# SPDX-License-Identifier: Apache-2.0
"""roundtrip.py TPX: tests tpx with the checkpoints of the real frameworks. In each group, whose members have the same
state in many layouts, tpx must find every member's layout, find equal states, and convert each member to every other
one: the tensors that the framework itself stored, split where the framework split them; and back again.
"""
import json
import sys
import tempfile
from pathlib import Path

import optimizer
import reader
import zero
from tool import FIXTURES, fixture, in_parallel, need_fixtures, tpx

# name of the checkpoint: the layout that inspect must find, and that gives the same split if it is requested
DCP_LLAMA = {
    "llama-a-plain1": "tp=1",
    "llama-a-fsdp2": "fsdp=2",
    "llama-a-fsdp3": "fsdp=3",
    "llama-a-fsdp4": "fsdp=4",
    "llama-a-tp2": "tp=2",
    "llama-a-fsdp2-tp2": "tp=2,fsdp=2",
    "llama-a-fsdp2-dim1": "fsdp=2,fsdp_dim=1",
    "llama-a-hsdp2x2": "fsdp=2,hsdp=2",
    "llama-a-hsdp2x2-lowest": "fsdp=2",  # all in the files of the first replica, without a trace of the second
}
TORCH_DIST_LLAMA = {
    "llama-small-dist-tp1pp1": "tp=1",
    "llama-small-dist-tp1pp4": "pp=4",
    "llama-small-dist-tp2pp1": "tp=2",
    "llama-small-dist-tp2pp2": "tp=2,pp=2",
    "llama-small-dist-tp2pp2vpp2": "tp=2,pp=2,vpp=2",
    "llama-small-dist-tp4pp1": "tp=4",
}
TORCH_DIST_GPT2 = {
    "gpt2-small-dist-tp1pp1": "tp=1",
    "gpt2-small-dist-tp1pp3": "pp=3",
    "gpt2-small-dist-tp2pp1": "tp=2",
}
# Experts: on different ranks (ep), and split by a separate degree (etp).
TORCH_DIST_MOE = {
    "moe-small-dist-tp1pp1": "tp=1",
    "moe-small-dist-tp1pp1ep2dp2": "dp=2,ep=2",
    "moe-small-dist-tp1pp1ep4dp4": "dp=4,ep=4",
    "moe-small-dist-tp1pp2ep2dp2": "pp=2,dp=2,ep=2",
    "moe-small-dist-tp2pp1": "tp=2",
    "moe-small-dist-tp2pp1ep2dp2": "tp=2,dp=2,ep=2",
    "moe-small-dist-tp2pp1ep2etp1": "tp=2,ep=2,etp=1",
}
# Stacked experts, fewer than ranks, and a buffer that FSDP does not split.
DCP_MOE = {
    "moe-nested-plain1": "tp=1",
    "moe-nested-fsdp2": "fsdp=2",
    "moe-nested-fsdp4": "fsdp=4",
    "moe-nested-fsdp2-tp2": "tp=2,fsdp=2",
}
# With optimizer state: of the plain optimizer, and of the distributed one, which splits it elsewhere and uses other
# names.
PLAIN_ADAM = {"llama-opt-dist-tp1pp1": "tp=1", "llama-opt-dist-tp2pp2": "tp=2,pp=2"}
DISTRIBUTED_ADAM = {
    "llama-opt-dist-tp1pp1dp2-fully_reshardable": "dp=2,zero=1",
    "llama-opt-dist-tp1pp1dp4-fully_reshardable": "dp=4,zero=1",
    "llama-opt-dist-tp2pp1dp2-fully_reshardable": "tp=2,dp=2,zero=1",
}
# Experts have an optimizer of their own there.
EXPERT_ADAM = {"moe-x-dist-tp1pp1ep2dp2": "dp=2,ep=2", "moe-x-dist-tp1pp1ep2dp4-fully": "dp=4,ep=2,zero=1"}
# All families; those that Megatron supports also through its names.
HF_TO_MEGATRON = {
    "hf-gpt2": "tp=3,pp=2",
    "hf-gpt2-small": "tp=2,pp=3",
    "hf-gptneox": "pp=2",
    "hf-qwen3moe-sharded": "tp=2,pp=3,dp=2,ep=4,etp=1",
}
HF_FAMILIES = {"hf-bert": 3, "hf-bloom": 3, "hf-gpt2": 3, "hf-gptneox": 3, "hf-qwen3moe-sharded": 2, "hf-t5": 3}
RANK_FILES_LLAMA = {
    "llama-small-legacy-tp1pp1": "tp=1",
    "llama-small-legacy-tp2pp1": "tp=2",
    "llama-small-legacy-tp2pp2": "tp=2,pp=2",
    "llama-small-legacy-tp2pp2vpp2": "tp=2,pp=2,vpp=2",
    "llama-small-legacy-tp4pp1": "tp=4",
}
RANK_FILES_UNEVEN = {
    "uneven-small-legacy-tp1pp1": "tp=1",
    "uneven-small-legacy-tp1pp2-first2": "pp=2,first=2",
    "uneven-small-legacy-tp1pp4-first1last2": "pp=4,first=1,last=2",
}
RANK_FILES_GPT2 = {
    "gpt2-small-legacy-tp1pp1": "tp=1",
    "gpt2-small-legacy-tp1pp3": "pp=3",
    "gpt2-small-legacy-tp2pp1": "tp=2",
}
RANK_FILES_MOE = {
    "moe-small-legacy-tp1pp1": "tp=1",
    "moe-small-legacy-tp1pp1ep2dp2": "dp=2,ep=2",
    "moe-small-legacy-tp1pp1ep4dp4": "dp=4,ep=4",
    "moe-small-legacy-tp1pp2ep2dp2": "pp=2,dp=2,ep=2",
    "moe-small-legacy-tp2pp1": "tp=2",
    "moe-small-legacy-tp2pp1ep2dp2": "tp=2,dp=2,ep=2",
    "moe-small-legacy-tp2pp1ep2etp1": "tp=2,ep=2,etp=1",
}
RANK_FILES_ADAM = {
    "llama-opt-legacy-tp1pp1": "tp=1",
    "llama-opt-legacy-tp1pp1-torchadam": "tp=1",
    "llama-opt-legacy-tp2pp2": "tp=2,pp=2",
    "llama-opt-legacy-tp1pp1dp2-distopt": "dp=2,zero=1",
    "llama-opt-legacy-tp1pp1dp4-distopt-buckets": "dp=4,zero=1",
    "llama-opt-legacy-tp1pp2dp2-distopt-buckets": "pp=2,dp=2,zero=1",
    "llama-opt-legacy-tp2pp1dp2-distopt": "tp=2,dp=2,zero=1",
}
TITAN = {"titan-llama-fsdp2": "fsdp=2"}

# Settings that the source lacks: the padded vocabulary size of Megatron, and the head counts, which DCP does not store.
PADDING = ["--set", "make_vocab_size_divisible_by=16"]
PADDING_8 = ["--set", "make_vocab_size_divisible_by=8"]
HEADS = ["--config", FIXTURES / "safetensors/hf-llama-single/ckpt/config.json"]
KEEP = {"hf-qwen3moe-sharded": ["--dialect", "keep"]}  # torchtitan's name for norms of q and k is unknown
# Megatron cannot compute the model of this configuration, but its tensors are converted and back nevertheless.
SEQUENTIAL = {"hf-gptneox": ["--set", "use_parallel_residual=false"]}
MORE = {("safetensors", "torch_dist"): PADDING, ("dcp", "safetensors"): HEADS}


def differences(found, expected):
    """Names whose dtype, shape or bytes differ from the expected ones, or that exist on one side only."""
    faults = [f"missing: {name}" for name in expected.keys() - found.keys()]
    faults += [f"unexpected: {name}" for name in found.keys() - expected.keys()]
    return faults + [f"differs: {n}" for n in expected.keys() & found.keys() if found[n].entry() != expected[n]]


def holds(facts):
    return {**facts["tensors"], **facts.get("optimizer", {})}


def cuts(tensors):
    """The boxes of every tensor; replicas count once. DCP also stores empty boxes, which are omitted."""
    boxes = {name: {box for box in whole.boxes if 0 not in box[1]} for name, whole in tensors.items()}
    return {name: sorted(found or set(tensors[name].boxes)) for name, found in boxes.items()}


def reshard(source, out, to, kind, ranks=1, more=()):
    done = tpx("reshard", source, out, "--to", to, "--format", kind, "--quiet", *more, ranks=ranks)
    return [f"reshard --to {to}: exit {done.returncode}: {done.stderr.strip()}"] if done.returncode else []


def inspect(folder, name, layout):
    checkpoint, facts = fixture(folder, name)
    done = tpx("inspect", checkpoint, "--json")
    if done.returncode:
        return [f"inspect: exit {done.returncode}: {done.stderr.strip()}"]
    found = json.loads(done.stdout)["layout"]
    found = found and found["text"]
    return [] if found == layout else [f"layout {found} instead of {layout}"]


def same_state(folder, one, other_folder, other):
    """Each member of a group was saved by a separate run, with different random numbers; members of other frameworks
    have only weights."""
    kinds = {"safetensors" in (folder, other_folder), "titan" in one + other} if folder != other_folder else set()
    how = ["--weights-only"] if True in kinds else ["--ignore", "rng"]
    return same_path(fixture(folder, one)[0], fixture(other_folder, other)[0], how)


def same_path(one, other, how=()):
    done = tpx("verify", *how, one, other)
    return [f"verify: exit {done.returncode}: {done.stdout.strip()} {done.stderr.strip()}"] if done.returncode else []


def there_and_back(folder, kind, a, a_layout, b, b_layout, ranks):
    """a in b's layout has b's tensors, split like b; converted back to a's layout, it equals a."""
    a_path, a_facts = fixture(folder, a)
    b_path, b_facts = fixture(folder, b)
    with tempfile.TemporaryDirectory() as scratch:
        there, back = Path(scratch, "there"), Path(scratch, "back")
        faults = reshard(a_path, there, b_layout, kind, ranks) or reshard(there, back, a_layout, kind, ranks)
        if faults:
            return faults
        for path, facts, original in ((there, b_facts, b_path), (back, a_facts, a_path)):
            tensors, objects = reader.read(path)
            theirs, their_objects = reader.read(original)
            faults += [f"{path.name}: {line}" for line in differences(tensors, holds(facts))]
            ours_cut, theirs_cut = cuts(tensors), cuts(theirs)
            faults += [f"{path.name}: cut elsewhere: {n}" for n in ours_cut if ours_cut[n] != theirs_cut.get(n)]
            if kind == "dcp" and objects.keys() != their_objects.keys():
                faults.append(f"{path.name}: {len(objects)} entries that are no tensors, not {len(their_objects)}")
    return faults


def across(folder, name, to_folder, to_name, layout, kind, ranks, more=None):
    """A checkpoint converted to another framework's format and names equals what that framework stored."""
    more = MORE.get((folder, kind), []) if more is None else more
    source, _ = fixture(folder, name)
    _, facts = fixture(to_folder, to_name)
    with tempfile.TemporaryDirectory() as scratch:
        out = Path(scratch, "out")
        return reshard(source, out, layout, kind, ranks, more) or differences(reader.read(out)[0], holds(facts))


def through(folder, name, layout, kind, config=True):
    """A Hugging Face checkpoint is unchanged after conversion to another format and back, even if only the intermediate
    checkpoint describes the model."""
    source, facts = fixture(folder, name)
    given = ["--config", source / "config.json"] if config else []
    with tempfile.TemporaryDirectory() as scratch:
        there, back = Path(scratch, "there"), Path(scratch, "back")
        faults = reshard(source, there, layout, kind, 1, PADDING + SEQUENTIAL.get(name, []) if kind == "torch_dist" else KEEP.get(name, []))
        faults = faults or reshard(there, back, "tp=1", "safetensors", 1, given)
        # The intermediate files have arguments of their own framework, or no configuration.
        faults = faults or same_path(source, there, ["--weights-only"]) + same_path(source, back)
        return faults or differences(reader.read(back)[0], holds(facts))


def by_way_of_zarr(a, a_layout, b, b_layout, ranks):
    """a as zarr in b's layout has b's tensors in chunks that are b's pieces; converted to torch_dist in a's layout, it
    equals a."""
    (a_path, a_facts), (b_path, b_facts) = fixture("megatron", a), fixture("megatron", b)
    with tempfile.TemporaryDirectory() as scratch:
        there, back = Path(scratch, "there"), Path(scratch, "back")
        faults = reshard(a_path, there, b_layout, "zarr", ranks) or reshard(there, back, a_layout, "torch_dist", ranks)
        faults = faults or same_path(a_path, back, ["--ignore", "rng"] if a != b else [])
        for path, facts, original in ((there, b_facts, b_path), (back, a_facts, a_path)) if not faults else []:
            found = reader.read(path)[0]
            tensors, theirs = cuts(found), cuts(reader.read(original)[0])
            faults += [f"{path.name}: {line}" for line in differences(found, holds(facts))]
            faults += [f"{path.name}: cut elsewhere: {n}" for n in tensors if tensors[n] != theirs.get(n)]
        return faults


def rank_files(source, layout, ranks):
    """Megatron's rank files contain the state from which they were made, and their layout is detected."""
    path, _ = fixture("megatron", source)
    with tempfile.TemporaryDirectory() as scratch:
        out = Path(scratch, "out")
        faults = reshard(path, out, layout, "megatron", ranks)
        if faults:
            return faults
        done = tpx("verify", path, out)
        faults = [f"verify: exit {done.returncode}: {done.stdout.strip()} {done.stderr.strip()}"] if done.returncode else []
        found = json.loads(tpx("inspect", out, "--json").stdout)["layout"]["text"]
        return faults + ([] if found == layout else [f"layout {found} instead of {layout}"])


def optimizer_abroad(name, like, ranks):
    """Megatron's moments and masters, after conversion to PyTorch's names in DCP and back, equal those of the
    distributed optimizer with the same state, `like`."""
    source, facts = fixture("megatron", like)
    with tempfile.TemporaryDirectory() as scratch:
        there, back = Path(scratch, "there"), Path(scratch, "back")
        faults = reshard(fixture("megatron", name)[0], there, "fsdp=3", "dcp", ranks)
        more = ["--dtype", "bf16", "--set", "make_vocab_size_divisible_by=4"]
        faults = faults or reshard(there, back, "tp=2,pp=2", "torch_dist", ranks, more)
        if faults:
            return faults
        names = {found for found in reader.read(there)[0] if found.endswith((".exp_avg", ".exp_avg_sq", ".step"))}
        found = {key: value for key, value in reader.read(back)[0].items() if key.startswith("optimizer.")}
        return differences(found, facts["optimizer"]) + ([] if len(names) == 63 else [f"{len(names)} names of state"])


def jobs():
    groups = [("dcp", "dcp", DCP_LLAMA), ("megatron", "torch_dist", TORCH_DIST_LLAMA), ("dcp", "dcp", TITAN)]
    groups += [("megatron", "torch_dist", TORCH_DIST_GPT2), ("megatron", "torch_dist", TORCH_DIST_MOE)]
    groups += [("dcp", "dcp", DCP_MOE)]
    for folder, kind, members in groups:
        names = list(members)
        for i, a in enumerate(names):
            yield inspect, folder, a, members[a]
            if i:
                yield same_state, folder, names[i - 1], folder, a
            for k, b in enumerate(names):
                if a != b and "lowest" not in b:
                    yield there_and_back, folder, kind, a, members[a], b, members[b], 1 + (i + k == len(names)) * 2

    for group in (PLAIN_ADAM, DISTRIBUTED_ADAM):
        for a, layout in group.items():
            yield inspect, "megatron", a, layout
            yield same_state, "megatron", "llama-opt-dist-tp1pp1", "megatron", a
            for b in group.keys() - {a}:
                yield across, "megatron", a, "megatron", b, group[b], "torch_dist", 1
    for name, layout in EXPERT_ADAM.items():
        yield inspect, "megatron", name, layout
        yield same_state, "megatron", "moe-x-dist-tp1pp1ep2dp2", "megatron", name
        for other in ("tp=1", "tp=2,pp=2,dp=2,ep=4,etp=1", "tp=2,ep=2,etp=1"):
            yield across, "megatron", name, "megatron", name, other, "torch_dist", 1 + ("dp" in other)
    yield inspect, "megatron", "uneven-small-dist-tp1pp2-first2", "pp=2,first=2"

    for group in (TORCH_DIST_LLAMA, TORCH_DIST_GPT2, TORCH_DIST_MOE, PLAIN_ADAM, DISTRIBUTED_ADAM, EXPERT_ADAM):
        names = list(group)
        for i, a in enumerate(names):
            for b in [a, names[(i + 1) % len(names)]] if group is not EXPERT_ADAM else [a]:
                yield by_way_of_zarr, a, group[a], b, group[b], 1 + (i % 3 == 1)

    # Rank files contain the same as torch_dist for the same state; the distributed optimizer's masters have another
    # name.
    for group, like in ((RANK_FILES_LLAMA, "llama-small-dist-tp2pp1"), (RANK_FILES_UNEVEN, "uneven-small-dist-tp1pp2-first2"),
                        (RANK_FILES_GPT2, "gpt2-small-dist-tp2pp1"), (RANK_FILES_MOE, "moe-small-dist-tp1pp1"),
                        ({"moe-x-legacy-tp1pp1ep2dp2-distopt": "dp=2,ep=2,zero=1"}, "moe-x-dist-tp1pp1ep2dp2"),
                        (RANK_FILES_ADAM, "llama-opt-dist-tp1pp1")):
        for a, layout in group.items():
            yield inspect, "megatron", a, layout
            yield same_state, "megatron", a, "megatron", like
    for group in (RANK_FILES_LLAMA, RANK_FILES_UNEVEN, RANK_FILES_GPT2, RANK_FILES_MOE, RANK_FILES_ADAM):
        layouts = list(group.values())
        for number, a in enumerate(group):
            yield rank_files, a, layouts[(number + 1) % len(layouts)], 1 + number % 2
            dist = a.replace("-legacy-", "-dist-")
            yield rank_files, dist if (FIXTURES / "megatron" / dist).is_dir() else a, layouts[number - 1], 1
    for ranks, whole in ((RANK_FILES_GPT2, TORCH_DIST_GPT2), (RANK_FILES_MOE, TORCH_DIST_MOE)):
        for (a, layout), b in zip(ranks.items(), whole):
            yield across, "megatron", a, "megatron", b, whole[b], "torch_dist", 1
    for a in RANK_FILES_LLAMA:
        for b, layout in TORCH_DIST_LLAMA.items():
            yield across, "megatron", a, "megatron", b, layout, "torch_dist", 1
        yield across, "megatron", a, "safetensors", "hf-llama-small", "tp=1", "safetensors", 2
    for a in RANK_FILES_ADAM:
        for b, layout in (DISTRIBUTED_ADAM if "distopt" in a else PLAIN_ADAM).items():
            yield across, "megatron", a, "megatron", b, layout, "torch_dist", 1

    for name in ("hf-llama-single", "hf-llama-sharded"):
        yield inspect, "safetensors", name, "tp=1"
        yield same_state, "safetensors", name, "dcp", "titan-llama-fsdp2"
        yield across, "safetensors", name, "dcp", "titan-llama-fsdp2", "fsdp=2", "dcp", 2
        yield across, "dcp", "titan-llama-fsdp2", "safetensors", name, "tp=1", "safetensors", 1
    yield same_state, "safetensors", "hf-llama-single", "safetensors", "hf-llama-sharded"
    for name, layout in TORCH_DIST_LLAMA.items():
        yield same_state, "safetensors", "hf-llama-small", "megatron", name
        yield across, "megatron", name, "safetensors", "hf-llama-small", "tp=1", "safetensors", 1
        yield across, "safetensors", "hf-llama-small", "megatron", name, layout, "torch_dist", 1
    for name, layout in TORCH_DIST_GPT2.items():
        yield same_state, "safetensors", "hf-gpt2-small", "megatron", name
        yield across, "megatron", name, "safetensors", "hf-gpt2-small", "tp=1", "safetensors", 1
        yield across, "safetensors", "hf-gpt2-small", "megatron", name, layout, "torch_dist", 1, PADDING_8
    for name in ("hf-llama-single", "hf-llama-sharded", "hf-llama-small", "hf-qwen2-tied"):
        yield through, "safetensors", name, "tp=2,pp=2,first=1", "torch_dist"
        yield through, "safetensors", name, "fsdp=3", "dcp"
    for name, layout in HF_TO_MEGATRON.items():
        yield inspect, "safetensors", name, "tp=1"
        yield through, "safetensors", name, layout, "torch_dist"
        if name not in SEQUENTIAL:
            yield through, "safetensors", name, layout, "torch_dist", False
    for name, tp in HF_FAMILIES.items():
        yield inspect, "safetensors", name, "tp=1"
        yield through, "safetensors", name, f"tp={tp}", "dcp"
        yield through, "safetensors", name, "fsdp=3", "dcp"

    for name in [*PLAIN_ADAM, *DISTRIBUTED_ADAM, *RANK_FILES_ADAM]:
        yield optimizer_abroad, name, "llama-opt-dist-tp2pp1dp2-fully_reshardable", 1 + ("dp2" in name)

    hf_writer = ["hf-a-dcp-fsdp2", "hf-a-sharded-fsdp3", "hf-a-sharded-fsdp2-tp2", "hf-a-consolidated-fsdp2", "hf-a-rank0"]
    for a, b in zip(hf_writer, hf_writer[1:]):
        yield same_state, "dcp", a, "dcp", b
        yield across, "dcp", b, "dcp", a, "fsdp=3", "dcp", 1
    yield from zero.jobs()
    yield from optimizer.jobs()


if __name__ == "__main__":
    need_fixtures()
    sys.exit(in_parallel(list(jobs())))
