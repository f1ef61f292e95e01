# SPDX-License-Identifier: Apache-2.0
"""The jobs of roundtrip.py for DeepSpeed: for each group of checkpoints of one state, with any ZeRO stage, number of
ranks or form, tpx must find equal states, reshard each to the ranks of the others, make its universal form, and
consolidate it to the output of DeepSpeed's zero_to_fp32. A DCP checkpoint made from it, and a universal one made from
that, must contain the same state.
"""
import json
import tempfile
from pathlib import Path

import reader
import zero_reader
from tool import FIXTURES, fixture, tpx

FOLDER = "deepspeed"
# The size to which the trainer pads the vocabulary is not stored.
PADDING = {name: ["--set", "make_vocab_size_divisible_by=4"] for name in ("pipe", "tensor")}


def run(*words, ranks=1):
    done = tpx(*words, ranks=ranks)
    if done.returncode == 0:
        return []
    return [f"{' '.join(map(str, words))}: exit {done.returncode}: {done.stdout.strip()} {done.stderr.strip()}"]


def layout(facts):
    """The layout by inspect; universal checkpoints have none."""
    given = facts["layout"]
    if given.get("universal"):
        return "tp=1"
    degrees = [f"{key}={given[key]}" for key in ("tp", "pp", "dp", "ep") if given.get(key, 1) > 1]
    return ",".join(degrees + [f"zero={given['zero']}"])


def found(name):
    checkpoint, facts = fixture(FOLDER, name)
    done = tpx("inspect", checkpoint, "--json")
    if done.returncode:
        return [f"inspect: exit {done.returncode}: {done.stderr.strip()}"]
    seen = json.loads(done.stdout)
    wanted = "universal" if facts["layout"].get("universal") else "deepspeed"
    faults = [] if seen["format"] == wanted else [f"format {seen['format']} instead of {wanted}"]
    faults += [] if seen["layout"]["text"] == layout(facts) else [f"layout {seen['layout']['text']}"]
    return faults + ([f"holes: {seen['holes']}"] if seen["holes"] else [])


# The run that DeepSpeed continued from its universal checkpoint lost the settings of all groups except the first.
LOST_SETTINGS = {"zero3-dp4"}


def verify(*checkpoints, names):
    """Compares two checkpoints whose settings come from the checkpoints `names`."""
    lost = ["--ignore", "settings"] if LOST_SETTINGS & set(names) else []
    return run("verify", *lost, *checkpoints)


def equal(one, other):
    return verify(fixture(FOLDER, one)[0], fixture(FOLDER, other)[0], names=[one, other])


def like(facts):
    """The options that make a checkpoint of the same kind."""
    given = facts["layout"]
    if given.get("universal"):
        return ["--to", "tp=1", "--format", "universal"]
    return ["--to", ",".join(f"{key}={given[key]}" for key in ("tp", "pp", "dp", "ep", "zero") if key in given), "--format", "deepspeed"]


def held(path, facts):
    """Tensors that an independent reader finds unexpectedly in the files, or misses."""
    wanted = {n: e for n, e in facts["optimizer"].items() if n.rsplit("/", 1)[-1] in ("fp32", "exp_avg", "exp_avg_sq")}
    wanted = {n: e for n, e in wanted.items() if n.rsplit("/", 1)[0] + "/exp_avg" in wanted}
    found = zero_reader.read_states(path, wanted)
    return [f"{path.name}: differs: {n}" for n in wanted if found.get(n) != wanted[n]] + [
        f"{path.name}: unexpected: {n}" for n in found.keys() - wanted.keys()
    ]


def pair(one, other, padding):
    """Converts `one` to the form of `other`, which must equal DeepSpeed's own, and back again."""
    path, facts = fixture(FOLDER, one)
    other_path, other_facts = fixture(FOLDER, other)
    with tempfile.TemporaryDirectory() as scratch:
        there, back = Path(scratch, "there"), Path(scratch, "back")
        faults = run("reshard", path, there, *like(other_facts), *padding, "--verify", "-q")
        faults = faults or verify(other_path, there, names=[one, other]) + held(there, other_facts)
        faults = faults or run("reshard", there, back, *like(facts), *padding, "-q")
        return faults or run("verify", path, back) + held(back, facts)


def recut(name, ranks, processes):
    """Reshards to other data ranks, and back again."""
    checkpoint, facts = fixture(FOLDER, name)
    given = facts["layout"]
    degrees = f"tp={given['tp']},pp={given['pp']},ep={given.get('ep', 1)},dp="
    with tempfile.TemporaryDirectory() as scratch:
        there, back = Path(scratch, "there"), Path(scratch, "back")
        faults = run("reshard", checkpoint, there, "--to", f"{degrees}{ranks}", "--verify", "-q", ranks=processes)
        faults = faults or run("verify", checkpoint, there)
        faults = faults or run("reshard", there, back, "--to", f"{degrees}{given['dp']}", "-q")
        return faults or run("verify", back, checkpoint)


def universal(name, theirs):
    """The universal form contains the same state, and equals DeepSpeed's own, if there is one."""
    checkpoint, _ = fixture(FOLDER, name)
    with tempfile.TemporaryDirectory() as scratch:
        out = Path(scratch, "out")
        faults = run("reshard", checkpoint, out, "--to", "tp=1", "--format", "universal", "--verify", "-q")
        faults = faults or run("verify", checkpoint, out)
        return faults or (verify(out, fixture(FOLDER, theirs)[0], names=[name, theirs]) if theirs else [])


def consolidated(name):
    """Master weights as safetensors equal the output of zero_to_fp32, except tensors that it omits for ZeRO 1."""
    checkpoint, facts = fixture(FOLDER, name)
    options = ["--format", "safetensors", "--drop", "optimizer", "--masters"]
    with tempfile.TemporaryDirectory() as scratch:
        out = Path(scratch, "out")
        faults = run("reshard", checkpoint, out, "--to", "tp=1", "-q", *options)
        if faults:
            return faults
        tensors, _ = reader.read(out)
        wanted = facts["zero_to_fp32"]
        return [f"differs: {key}" for key in wanted if key not in tensors or tensors[key].entry() != wanted[key]]


def abroad(name, stage):
    """In a DCP checkpoint, master weights are the weights, and moments have torch's names; after conversion back to
    DeepSpeed, they have DeepSpeed's."""
    checkpoint, facts = fixture(FOLDER, name)
    given = []
    if "elastic" in name:  # such checkpoints have no param_groups
        with tempfile.TemporaryDirectory() as scratch:
            done = tpx("reshard", checkpoint, Path(scratch, "out"), "--to", "tp=1", "--format", "dcp")
        if done.returncode != 2 or "pass --set lr=X" not in done.stderr:
            return [f"{done}"]
        given = ["--set", "lr=0.001", "--set", "weight_decay=0.1"]
    wanted = {}
    for key, entry in facts["optimizer"].items():
        parameter, state = key.rsplit("/", 1)
        if state == "step" or parameter + "/exp_avg" not in facts["optimizer"]:
            continue
        wanted[parameter if state == "fp32" else f"optimizer.state.{parameter}.{state}"] = entry
    with tempfile.TemporaryDirectory() as scratch:
        there, back = Path(scratch, "there"), Path(scratch, "back")
        faults = run("reshard", checkpoint, there, "--to", "tp=1", "--format", "dcp", "--verify", "-q", *given)
        if faults:
            return faults
        tensors, _ = reader.read(there)
        steps = [tensor for key, tensor in tensors.items() if key.startswith("optimizer.state.") and key.endswith(".step")]
        faults = [] if steps and all(bytes(step.data) == b"\0\0\0\x40" for step in steps) else ["dcp: not all are at step 2"]
        faults += [f"dcp: differs: {key}" for key in wanted if key not in tensors or tensors[key].entry() != wanted[key]]
        states = {key for key in tensors if key.startswith("optimizer.state.") and not key.endswith(".step")}
        faults += [f"dcp: unexpected: {key}" for key in states - wanted.keys()]
        if not faults and facts["layout"].get("ep", 1) > 1:
            done = tpx("reshard", there, back, "--to", "tp=1", "--format", "universal")
            return [] if done.returncode == 2 and "do not hold experts" in done.stderr else [f"{done}"]
        faults = faults or run("reshard", there, back, "--to", f"zero={stage}", "--format", "universal", "--verify", "-q")
        return faults or held(back, facts)


def jobs():
    groups = {}
    for path in sorted((FIXTURES / FOLDER).glob("*/fixture.json")):
        facts = json.loads(path.read_text())
        groups.setdefault(facts["same_state_as"], []).append((path.parent.name, facts))
    for members in groups.values():
        for i, (name, facts) in enumerate(members):
            yield found, name
            if i:
                yield equal, members[i - 1][0], name
            for other, _ in members:
                if other != name:
                    yield pair, name, other, PADDING.get(facts["same_state_as"], [])
            yield abroad, name, 1 + 2 * (i % 2)
            if facts["layout"].get("universal"):
                continue
            experts = facts["layout"].get("ep", 1)
            for ranks in (1, 3, 4):
                yield recut, name, ranks * experts, 2 if ranks == 3 else 1
            if "error" not in facts.get("zero_to_fp32", {"error": ""}):
                yield consolidated, name
            if experts == 1 and "elastic" not in name:
                yield universal, name, next((n for n, f in members if f["layout"].get("universal")), None)
