# SPDX-License-Identifier: Apache-2.0
"""titan.py SOURCES OUT [TABLE ...]: writes OUT/TABLE.json, the tensors that torchtitan's own code makes of a tiny model of each
family. SOURCES has a folder for each version, its unpacked wheel:

    for version in 0.2.2 0.3.0; do
        pip download --no-deps --python-version 3.12 --only-binary :all: torchtitan==$version && unzip -d SOURCES/$version torchtitan-$version-*.whl
    done
    PYTHONPATH=tests/interop ~/.cache/tpx-interop/bin/python -P testdata/make/titan.py SOURCES testdata/titan

The state-dict adapters import without a GPU because everything outside them, torchtitan's models included, is replaced by empty
classes. What a model's configuration would supply is below (`configuration`). Adapters have mistakes, which are mended here as the
modules have it: that of gpt-oss in 0.3.0 omits the last part of the names of the experts' parameters, and reads weights in
the form of its MXFP4 reader; that of Qwen3.5 wants the axes of experts exchanged."""
import importlib
import importlib.machinery
import importlib.util
import re
import sys
import types
from pathlib import Path

import torch
import transformers

import families
import megatron_bridge

# Other files beside this one are called as libraries are, so that their folder cannot be searched for modules.
spec = importlib.util.spec_from_file_location("bridge", Path(__file__).with_name("bridge.py"))
bridge = importlib.util.module_from_spec(spec)
spec.loader.exec_module(bridge)

# For each table the version, the folder of its model in torchtitan, a model of families.py and what is changed of that: of the
# number of experts the entry that the model has.
SMALL, FEW = bridge.SMALL, bridge.FEW
OLD, NEW = "0.2.2", "0.3.0"
DELTA = {"layer_types": ["linear_attention", "full_attention"]}
MODELS = {
    "llama3-0.2": (OLD, "llama3", "llama", SMALL),
    "llama4-0.2": (OLD, "llama4", "llama4", {**FEW, "interleave_moe_layer_step": 1}),
    "deepseek-v3-0.2": (OLD, "deepseek_v3", "deepseek-v3", {**FEW, "n_group": 1}),
    "qwen3-0.2": (OLD, "qwen3", "qwen3", SMALL),
    "qwen3-moe-0.2": (OLD, "qwen3", "qwen3-moe", {**FEW, "mlp_only_layers": []}),
    "gpt-oss-0.2": (OLD, "gpt_oss", "gpt-oss", FEW),
    "llama3": (NEW, "llama3", "llama", SMALL),
    "deepseek-v3": (NEW, "deepseek_v3", "deepseek-v3", {**FEW, "n_group": 1}),
    "deepseek-v3-mtp": (NEW, "deepseek_v3", "deepseek-v3", {**FEW, "n_group": 1, "num_nextn_predict_layers": 1}),
    "deepseek-v2": (NEW, "deepseek_v3", "deepseek-v2", FEW),  # queries that are not compressed
    "qwen3": (NEW, "qwen3", "qwen3", SMALL),
    "qwen3-moe": (NEW, "qwen3", "qwen3-moe", {**FEW, "mlp_only_layers": []}),
    "gpt-oss": (NEW, "gpt_oss", "gpt-oss", FEW),
    "qwen3.5": (NEW, "qwen3_5", "qwen3.5", {**SMALL, **DELTA}),
    "qwen3.5-moe": (NEW, "qwen3_5", "qwen3.5-moe", {**FEW, **DELTA}),
    "qwen3.5-vl": (NEW, "qwen3_5", "qwen3.5-vl", {}),
    "qwen3.5-vl-moe": (NEW, "qwen3_5", "qwen3.5-vl-moe", {}),
    "kimi-k2.5": (NEW, "kimi_k2_7", "", {}),
    "muse-glimmer": (NEW, "muse_glimmer", "muse-glimmer", {}),
}


# transformers 5.23 saves Kimi K2.5 under names that its releases do not have, so that families.py cannot use it.
KIMI = {"text_config": {**families.LATENT, **families.EXPERTS, "model_type": "deepseek_v3", "num_hidden_layers": 2, "vocab_size": 96, "n_routed_experts": 2, "n_shared_experts": 1, "n_group": 1,
                        "topk_group": 1, "first_k_dense_replace": 1, "q_lora_rank": 12, "kv_lora_rank": 8, "qk_rope_head_dim": 4, "qk_nope_head_dim": 8, "v_head_dim": 8, "num_nextn_predict_layers": 0,
                        "tie_word_embeddings": False},
        "vision_config": {"hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2, "num_attention_heads": 2, "patch_size": 4, "pos_emb_height": 4, "pos_emb_width": 4, "pos_emb_time": 2},
        "projection_hidden_size": 16, "tie_word_embeddings": False}  # fmt: skip


def kimi():
    """Class, configuration and tensors of a Kimi K2.5 under the names of its release."""
    kind, (config, stored, saved) = "Kimi_K25ForConditionalGeneration", bridge.model("Kimi_K25ForConditionalGeneration", KIMI)
    tensors = {}
    for name, value in saved.items():
        name = name.replace("language_model.model.blocks.", "language_model.model.layers.").replace("encoder.patch_embed.", "patch_embed.")
        name = re.sub(r"^model\.(?=mm_projector)", "", name)
        tensors[name] = torch.from_numpy(megatron_bridge.values(name, tuple(value.shape)))
    return kind, config, stored, tensors


class Finder:
    """torchtitan's adapters as they are; replacements for all else of it and of what it needs."""

    OWN = re.compile(r"torchtitan\.(models\.(\w+\.)+state_dict_adapter|models\.utils|protocols\.state_dict_adapter)$")
    REPLACED = ("torchtitan", "spmd_types", "tyro")

    def __init__(self, source):
        self.source = Path(source)

    def find_spec(self, name, path=None, target=None):
        file = self.source / (name.replace(".", "/") + ".py")
        if self.OWN.match(name) and file.exists():
            return importlib.util.spec_from_file_location(name, file)
        return importlib.machinery.ModuleSpec(name, self, is_package=True) if name.split(".")[0] in self.REPLACED else None

    def create_module(self, spec):
        return bridge.Replacement(spec.name)

    def exec_module(self, module):
        pass


def adapter_of(source, folder, config):
    """The adapter of a model in torchtitan, for a configuration of transformers."""
    sys.meta_path[:] = [Finder(source), *(entry for entry in sys.meta_path if not isinstance(entry, Finder))]
    for name in [name for name in sys.modules if name.split(".")[0] in Finder.REPLACED]:
        del sys.modules[name]
    inner = "model." if (Path(source) / "torchtitan/models" / folder / "model/state_dict_adapter.py").exists() else ""
    file = importlib.import_module(f"torchtitan.models.{folder}.{inner}state_dict_adapter")
    base = importlib.import_module("torchtitan.protocols.state_dict_adapter").StateDictAdapter
    base._validate_hf_rope_config = lambda *_: None
    own = next(item for item in vars(file).values() if isinstance(item, type) and issubclass(item, base) and item.__module__ == file.__name__)
    return own(configuration(config), None)


def configuration(config):
    """What the adapters ask of a model's configuration, for both versions."""
    space = types.SimpleNamespace
    vision = space(num_heads=bridge.first(config.vision_config, "num_heads", "num_attention_heads"), patch_size=config.vision_config.patch_size, in_channels=3) if hasattr(config, "vision_config") else None
    config = bridge.language_config(config)
    heads = config.num_attention_heads
    experts = bridge.first(config, "n_routed_experts", "num_local_experts", "num_experts")
    rank = getattr(config, "q_lora_rank", None) or 0
    head = getattr(config, "head_dim", None) or config.hidden_size // heads
    groups = getattr(config, "num_key_value_heads", heads)
    attention = space(n_heads=heads, n_kv_heads=groups, head_dim=head, q_lora_rank=rank)
    delta = None
    if hasattr(config, "linear_num_key_heads"):
        keys = config.linear_num_key_heads * config.linear_key_head_dim
        values = config.linear_num_value_heads * config.linear_value_head_dim
        delta = space(in_proj_q=space(out_features=keys), in_proj_v=space(out_features=values))
    moe = space(num_experts=experts) if experts else None
    layers = [space(attention=attention, moe=moe, delta_net=delta) for _ in range(config.num_hidden_layers)]
    return space(layers=layers, mtp_layers=[0] * (getattr(config, "num_nextn_predict_layers", 0) or 0), dim=config.hidden_size, n_heads=heads, n_kv_heads=groups,
                 head_dim=head, q_lora_rank=rank, moe_args=moe, enable_weight_tying=bool(config.tie_word_embeddings), vision_encoder=vision)


def stacked_experts(tensors, layer):
    """The experts of a layer as one tensor of gates and ups, and one of downs, with the axes that the adapter of Qwen3.5 wants."""
    start = f"{layer}.mlp.experts."
    if start + "gate_up_proj" in tensors:
        both, down = tensors.pop(start + "gate_up_proj"), tensors.pop(start + "down_proj")
    else:
        count = len({name.split(".experts.")[1].split(".")[0] for name in tensors if name.startswith(start)})
        own = [[tensors.pop(f"{start}{e}.{part}_proj.weight") for e in range(count)] for part in ("gate", "up", "down")]
        both = torch.cat([torch.stack(own[0]), torch.stack(own[1])], dim=1)
        down = torch.stack(own[2])
    return {start + "gate_up_proj": both.transpose(1, 2), start + "down_proj": down.transpose(1, 2)}


def as_asked(folder, tensors):
    """The tensors under the names, and in the form, that an adapter reads."""
    found = dict(tensors)
    if folder == "gpt_oss":
        for name in [name for name in found if name.endswith(("gate_up_proj", "experts.down_proj"))]:
            found[name + "_blocks"] = found.pop(name).transpose(1, 2)
    if folder == "qwen3_5":
        for layer in sorted({name.partition(".mlp.experts.")[0] for name in found if ".mlp.experts." in name}):
            found |= stacked_experts(found, layer)
        found = {re.sub(r"^model\.(?!language_model|visual)", "model.language_model.", name): value for name, value in found.items()}
    if folder == "llama4":
        found = {"language_model." + name: value for name, value in found.items()}
    return found


def of_module(source, folder, name):
    """The name of a parameter as the module has it, where the adapter has only its beginning."""
    file = Path(source) / "torchtitan/models" / folder / "moe.py"
    last = name.rpartition(".")[2]
    if folder != "gpt_oss" or not file.exists() or not last.startswith("mlp"):
        return name
    own = next(word for word in re.findall(r"self\.(mlp\w+) = nn\.Parameter", file.read_text()) if word.startswith(last))
    return name.removesuffix(last) + own


def table(name, sources):
    version, folder, key, changes = MODELS[name]
    kind, config, stored, tensors = bridge.of_transformers(key, changes) if key else kimi()
    source = Path(sources, version)
    adapter = adapter_of(source, folder, config)
    made = adapter.from_hf(as_asked(folder, tensors))
    rows = {of_module(source, folder, titan): megatron_bridge.described(value.numpy()) for titan, value in sorted(made.items())}
    return {"class": kind, "torchtitan": f"torchtitan {version}, {type(adapter).__name__}", "version": version, "config": stored,
            "hf": {hf: list(value.shape) for hf, value in tensors.items()}, "titan": rows}


def main():
    sources, out, *wanted = sys.argv[1:]
    transformers.logging.set_verbosity_error()
    for name in wanted or MODELS:
        found = table(name, sources)
        Path(out).mkdir(exist_ok=True)
        Path(out, f"{name}.json").write_text(megatron_bridge.written(found, ("hf", "titan")))
        print(f"{name}: {len(found['hf'])} tensors of {found['class']}, {len(found['titan'])} names")


if __name__ == "__main__":
    main()
