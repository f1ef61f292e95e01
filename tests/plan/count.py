# SPDX-License-Identifier: Apache-2.0
"""count.py TPX FIXTURES: checks that the bytes of each new rank in `tpx plan CKPT --to LAYOUT` are those of
tpx-layout(5), counted here without tpx from the names, shapes and dtypes of the framework that wrote CKPT
(fixture.json). State of Megatron's distributed optimizer is counted in its flat buffers."""
import json
import math
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

SIZES = {"u8": 1, "i32": 4, "bf16": 2, "f32": 4, "i64": 8}
FIRST_AXIS = (
    "embed_tokens lm_head q_proj k_proj v_proj gate_proj up_proj tok_embeddings output wq wk wv w1 w3 word_embeddings "
    "output_layer linear_qkv linear_fc1"
).split()
SECOND_AXIS = "o_proj down_proj wo w2 linear_proj linear_fc2".split()
EXTRAS = ("rng", "train_state")  # tpx counts them on the ranks of the first stage
STATES = ("exp_avg", "exp_avg_sq", "fp32_param", "step")
FIXTURES = (
    "safetensors/hf-llama-small safetensors/hf-qwen2-tied safetensors/hf-qwen3moe-sharded megatron/llama-small-dist-tp2pp2 "
    "megatron/llama-opt-dist-tp1pp1 megatron/llama-opt-dist-tp2pp2 megatron/moe-small-dist-tp2pp1ep2dp2 "
    "megatron/moe-x-dist-tp1pp1ep2dp2 dcp/llama-a-fsdp2-tp2 dcp/llama-a-hsdp2x2 dcp/llama-a-plain1 dcp/titan-llama-fsdp2"
).split()
LAYOUTS = (
    "tp=2 tp=4 tp=2,pp=2 dp=3 tp=2,dp=2 dp=3,zero=1 dp=3,zero=2 dp=3,zero=3 tp=2,dp=3,zero=1 pp=2,dp=5,zero=1 "
    "cp=2,dp=2,zero=1 fsdp=3 fsdp=5 tp=2,fsdp=3 tp=2,fsdp=2,hsdp=2 fsdp=16 ep=2,dp=2 ep=2,etp=1,tp=2 ep=2,dp=4,zero=1"
).split()


def chunk(size, parts, part):
    """The length of a part, as by torch.chunk."""
    length = -(-size // parts)
    return max(0, min(size, (part + 1) * length) - min(size, part * length))


class Layout:
    def __init__(self, text):
        given = {key: int(value) for key, value in (pair.split("=") for pair in text.split(","))}
        for key in ("tp", "pp", "dp", "cp", "ep", "fsdp", "hsdp"):
            setattr(self, key, given.get(key, 1))
        self.zero, self.etp = given.get("zero", 0), given.get("etp", self.tp)
        self.dp = max(self.dp, self.fsdp * self.hsdp)
        self.stage_size = self.tp * self.cp * self.dp

    def place(self, rank, expert):
        """Part number and number of parts of tensor parallelism and of data parallelism, and the part number of
        experts."""
        at = rank % self.stage_size
        if not expert:
            return at % self.tp, self.tp, at // self.tp, self.cp * self.dp, 0
        outer = self.etp * self.ep
        return at % self.etp, self.etp, at // outer, self.stage_size // outer, at // self.etp % self.ep


def tensors_of(fixture):
    """(name of the parameter, whether it is optimizer state, shape, bytes of an element, layer); stacks one by one."""
    for name, tensor in {**fixture["tensors"], **fixture.get("optimizer", {})}.items():
        words = name.split(".")
        state = words[:2] == ["optimizer", "state"]
        if state:
            words = words[3:] if words[2] in STATES else words[2:-1]
        layer = next((int(word) for k, word in enumerate(words) if k > 0 and words[k - 1] == "layers" and word.isdigit()), None)
        shape, size = list(tensor["shape"]), SIZES[tensor["dtype"]]
        if "layers" in words and layer is None:
            for stacked in range(shape[0]):
                yield words, state, shape[1:], size, stacked
        else:
            yield words, state, shape, size, layer


def rows_of_vocabulary(fixture, layout, rows, part, parts):
    """The first row of a rank, and the row after its last one: Megatron pads to equal parts, but padding is not
    counted."""
    unit = fixture["model"].get("make_vocab_size_divisible_by")
    length = -(-rows // parts)
    if unit:
        length = -(-fixture["model"]["vocab"] // (unit * layout.tp)) * unit
    return part * length, (part + 1) * length


def bytes_of(fixture, layout, words, state, shape, size, rank):
    module = words[-2] if len(words) > 1 else ""
    expert = "experts" in words
    stacked = expert and words[-3] == "experts"  # all experts in one tensor
    model = fixture["model"]
    tp, tps, dp, dps, ep = layout.place(rank, expert)
    shape = list(shape)
    if stacked:
        shape[0] //= layout.ep
    elif expert:
        number = int(words[words.index("experts") + 1])
        if number // (model.get("num_experts", model.get("experts")) // layout.ep) != ep:
            return 0
    first = 1 if stacked else 0
    axis = None
    if module in FIRST_AXIS and words[-1] in ("weight", "bias"):
        axis = first
    elif module in SECOND_AXIS and words[-1] == "weight":
        axis = first + 1
    begin, end = 0, 0
    if not shape or words[0] in EXTRAS:  # each rank has all of it
        return size * (shape[0] if shape else 1)
    if module in ("word_embeddings", "output_layer"):
        begin, end = rows_of_vocabulary(fixture, layout, shape[0], tp, tps)
    elif axis is not None:
        shape[axis] = chunk(shape[axis], tps, tp)
    shared = dps if (layout.zero > 0 and state) or layout.zero == 3 else layout.fsdp
    dp %= shared
    if module in ("word_embeddings", "output_layer"):
        length = -(-(end - begin) // shared)
        begin, end = begin + dp * length, min(end, begin + (dp + 1) * length)
        shape[0] = max(0, min(shape[0], end) - begin)
    elif shared > 1:
        halves = 2 if module == "linear_fc1" and axis is not None and model.get("swiglu") else 1  # gate and up are split separately
        shape[first] = halves * chunk(shape[first] // halves, shared, dp)
    for length in shape:
        size *= length
    return size


def place_in_module(words, layer):
    """Sorts the parameters of a rank in the order of named_parameters() of Megatron's model (local spec)."""
    name = ".".join(words)
    outer = next(k for k, key in enumerate(("embedding.", "decoder.layers.", "decoder.final", "output_layer")) if name.startswith(key))
    inner = (".linear_qkv.layer_norm", ".linear_proj.", ".linear_qkv.", ".linear_fc1.layer_norm", ".router.", ".linear_fc1.", ".linear_fc2.")
    order = next((k for k, key in enumerate(inner) if key in name), 0)
    return outer, layer if layer is not None else 0, order, words[-1] != "weight"


def buffer_of(fixture, layout, stage, part, experts, states):
    """(begin, stored elements, bytes of state an element) of the parameters of a buffer of Megatron's distributed
    optimizer, last parameter first, and the size of each bucket."""
    model, split = fixture["model"], layout.ep > 1
    found = []
    for words, state, shape, _, layer in tensors_of(fixture):
        expert = "experts" in words
        on_stages = stages_of(fixture, layout, words, layer)
        if state or stage not in on_stages or (split and expert != experts):
            continue
        tps, shape, copies = layout.etp if expert else layout.tp, list(shape), [0]
        if expert:
            count = shape.pop(0) // layout.ep
            copies = range(count)
        axis = None
        if words[-2] in FIRST_AXIS and words[-1] in ("weight", "bias"):
            axis = 0
        elif words[-2] in SECOND_AXIS and words[-1] == "weight":
            axis = 1
        real = None
        if words[-2] in ("word_embeddings", "output_layer"):
            begin, end = rows_of_vocabulary(fixture, layout, shape[0], part, tps)
            real, shape[0] = max(0, min(shape[0], end) - begin), end - begin
        elif axis is not None:
            shape[axis] //= tps
        elements = math.prod(shape)
        stored = elements if real is None else elements // shape[0] * real
        alone = layout.pp > 1 and model.get("tied") and words[-2] == "word_embeddings"
        place = place_in_module(words, layer)
        if alone and stage > 0:
            place = (9,)  # the output layer is a copy of the embedding
        for copy in copies:
            found.append(((*place[:2], place[2] if not expert else 5, copy, *place[2:]), elements, stored, states[tuple(words), layer], alone))
    at, start, placed, buckets = 0, 0, [], []

    def close():
        nonlocal at, start
        if at > start:
            buckets.append((start, at))
        at = start = -(-at // 128) * 128

    for _, elements, stored, size, alone in sorted(found, reverse=True):
        at = -(-at // 64) * 64
        if alone:
            close()
        placed.append((at, stored, size))
        at += elements
        if alone:
            close()
    close()
    return placed, buckets


def bytes_in_buffers(fixture, layout):
    """Bytes of optimizer state of each rank; each rank owns an equal part of every padded bucket."""
    states = {}
    for words, state, _, size, layer in tensors_of(fixture):
        if state:
            states[tuple(words), layer] = states.get((tuple(words), layer), 0) + size
    ranks = [0] * (layout.stage_size * layout.pp)
    for rank in range(len(ranks)) if states else []:
        for experts in (False, True) if layout.ep > 1 else (False,):
            part, _, share, shares, _ = layout.place(rank, experts)
            placed, buckets = buffer_of(fixture, layout, rank // layout.stage_size, part, experts, states)
            for start, end in buckets:
                unit = math.lcm(shares, 128)
                length = -(-(end - start) // unit) * unit // shares
                first, last = start + share * length, min(end, start + (share + 1) * length)
                for begin, stored, size in placed:
                    ranks[rank] += max(0, min(last, begin + stored) - max(first, begin)) * size
    return ranks


def stages_of(fixture, layout, words, layer):
    layers = fixture["model"].get("num_hidden_layers", fixture["model"].get("layers"))
    tied = fixture["model"].get("tied") and layout.pp > 1
    is_first = words[0] in EXTRAS or any("embed" in word for word in words)
    stage = 0 if is_first else layout.pp - 1
    if layer is not None:
        stage = layer // (layers // layout.pp)
    return {stage, layout.pp - 1} if is_first and tied else {stage}


def counted(fixture, text):
    layout = Layout(text)
    in_buffers = "megatron-core" in fixture["framework"] and layout.zero == 1
    ranks = bytes_in_buffers(fixture, layout) if in_buffers else [0] * (layout.stage_size * layout.pp)
    for words, state, shape, size, layer in tensors_of(fixture):
        if state and in_buffers:
            continue
        stages = stages_of(fixture, layout, words, layer)
        for rank in range(len(ranks)):
            if rank // layout.stage_size in stages:
                ranks[rank] += bytes_of(fixture, layout, words, state, shape, size, rank)
    return ranks


def differs(tpx, folder, layout):
    """The fault; empty: none; None: tpx refuses the layout."""
    run = subprocess.run([tpx, "plan", folder / "ckpt", "--to", layout, "--json", "-q"], capture_output=True, text=True)
    if run.returncode == 2:
        return None
    if run.returncode != 0:
        return run.stderr
    found, expected = json.loads(run.stdout)["new_bytes"], counted(json.loads((folder / "fixture.json").read_text()), layout)
    return "" if found == expected else f"{sum(found)} bytes {found[:6]} instead of {sum(expected)} {expected[:6]}"


def main(tpx, fixtures):
    jobs = [(Path(fixtures) / name, layout) for name in FIXTURES for layout in LAYOUTS]
    with ThreadPoolExecutor(2) as pool:
        results = list(pool.map(lambda job: differs(tpx, *job), jobs))
    for (folder, layout), result in zip(jobs, results):
        if result:
            print(f"{folder.name} --to {layout}: {result}")
    plans = sum(result is not None for result in results)
    wrong = sum(bool(result) for result in results)
    print(f"{plans} plans counted, {wrong} differ")
    sys.exit(wrong > 0 or plans < 150)


main(*sys.argv[1:])
