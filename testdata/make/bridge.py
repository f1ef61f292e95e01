# SPDX-License-Identifier: Apache-2.0
"""bridge.py SOURCE OUT [FAMILY ...]: writes OUT/FAMILY.json, the tensors that Megatron Bridge's own code makes of a tiny model
of each family. SOURCE is its unpacked wheel:

    pip download --no-deps --python-version 3.12 --only-binary :all: megatron-bridge==0.6.2 && unzip -d SOURCE megatron_bridge-*.whl
    PYTHONPATH=tests/interop ~/.cache/tpx-interop/bin/python -P testdata/make/bridge.py SOURCE testdata/bridge

The bridges import without a GPU because everything outside them that is not installed here, and Megatron-core, is replaced by
empty classes. What remains Megatron Bridge's own is the list of mappings of a model class, the lookup of a name, and the
conversion of values for each tensor-parallel rank. What a Megatron-core model would supply is below: the class of the module
that holds a parameter (`module_class`), and the sizes (`provider`)."""
import importlib
import importlib.machinery
import itertools
import json
import re
import sys
import tempfile
import types
from pathlib import Path

import torch
import transformers

import families
import megatron_bridge

VERSION = "0.6.2"

# Two layers and two experts are enough.
SMALL = {"num_hidden_layers": 2, "vocab_size": 96}
FEW = {**SMALL, "num_experts": 2, "n_routed_experts": 2, "num_local_experts": 2, "moe_num_experts": 2}

# For each family the file of its bridge (and the class, if it is not the first), a model of families.py, and what is changed of that: of the number of experts the
# entry that the model has. Without a model of families.py: ling().
MODELS = {
    "llama": ("llama.llama_bridge", "llama", SMALL),
    "mistral": ("mistral.mistral_bridge", "mistral-window", SMALL),
    "qwen2": ("qwen.qwen2_bridge", "qwen2", SMALL),
    "qwen3": ("qwen.qwen3_bridge", "qwen3", SMALL),
    "qwen3-moe": ("qwen.qwen3_moe_bridge", "qwen3-moe", {**FEW, "mlp_only_layers": []}),
    "deepseek-v2": ("deepseek.deepseek_v2_bridge", "deepseek-v2", FEW),
    "deepseek-v3": ("deepseek.deepseek_v3_bridge", "deepseek-v3", {**FEW, "n_group": 1}),
    "deepseek-v3-mtp": ("deepseek.deepseek_v3_bridge", "deepseek-v3", {**FEW, "n_group": 1, "num_nextn_predict_layers": 1}),
    "glm-4.5": ("glm.glm45_bridge", "glm-4.5", FEW),
    "glm-4.5-mtp": ("glm.glm45_bridge", "glm-4.5", {**FEW, "num_nextn_predict_layers": 1}),
    "glm-4.7-flash": ("glm.glm47_flash_bridge", "glm-4.7-flash", {**FEW, "mlp_layer_types": ["dense", "sparse"]}),
    "gpt-oss": ("gpt_oss.gpt_oss_bridge", "gpt-oss", FEW),
    "olmoe": ("olmoe.olmoe_bridge", "olmoe", FEW),
    "nemotron": ("nemotron.nemotron_bridge", "nemotron", SMALL),
    "gemma": ("gemma.gemma_bridge", "gemma", SMALL),
    "gemma2": ("gemma.gemma2_bridge", "gemma2", SMALL),
    "gemma3": ("gemma.gemma3_bridge", "gemma3", {**SMALL, "layer_types": ["sliding_attention", "full_attention"]}),
    "exaone4": ("exaone.exaone4.exaone4_bridge", "exaone4", {**SMALL, "layer_types": ["sliding_attention", "full_attention"], "tie_word_embeddings": True}),
    "exaone-moe": ("exaone.exaone_moe.exaone_moe_bridge", "exaone-moe", {**FEW, "layer_types": ["sliding_attention", "full_attention"]}),
    "hy-v3": ("hy_v3.hy_v3_bridge", "hy-v3", FEW),
    "minimax-m2": ("minimax_m2.minimax_m2_bridge", "minimax-m2", FEW),
    "ernie-4.5-moe": ("ernie.ernie_45_bridge", "ernie-4.5-moe", FEW),
    "nemotron-h": ("nemotronh.nemotron_h_bridge", "nemotron-h", {key: value for key, value in FEW.items() if key != "num_hidden_layers"}),
    "falcon-h1": ("falcon_h1.falconh1_bridge", "falcon-h1", SMALL),
    "glm-5": ("glm_moe_dsa.glm5_bridge", "glm-5", FEW),
    "qwen3-next": ("qwen.qwen3_next_bridge", "qwen3-next", {**FEW, "layer_types": ["linear_attention", "full_attention"]}),
    "qwen3.5": ("qwen.qwen35_bridge:Qwen35Bridge", "qwen3.5", {**SMALL, "layer_types": ["linear_attention", "full_attention"]}),
    "qwen3.5-moe": ("qwen.qwen35_bridge", "qwen3.5-moe", {**FEW, "layer_types": ["linear_attention", "full_attention"]}),
    "qwen3-next-mtp": ("qwen.qwen3_next_bridge", "qwen3-next", {**FEW, "layer_types": ["linear_attention", "full_attention"], "num_nextn_predict_layers": 1}),
    "bailing-moe-v2": ("bailing.bailing_moe2_bridge", "", {}),
    "qwen2.5-vl": ("qwen_vl.qwen25_vl_bridge", "qwen2.5-vl", {}),
    "gemma3-vl": ("gemma_vl.gemma3_vl_bridge", "gemma3-vl", {}),
    "gemma4-vl": ("gemma_vl.gemma4_vl_bridge:Gemma4VLBridge", "gemma4-vl", {}),
    "mistral3": ("ministral3.ministral3_bridge", "mistral3", {}),
    "mistral3-small": ("ministral3.ministral3_bridge", "mistral3-small", {}),
    "minimax-m3": ("minimax_m3.minimax_m3_bridge:MiniMaxM3Bridge", "minimax-m3", {}),
    "glm-4.5v": ("glm_vl.glm_45v_bridge", "glm-4.5v", {}),
    "exaone-4.5": ("exaone.exaone45.exaone45_bridge", "exaone-4.5", {}),
    "ernie-4.5-vl": ("ernie_vl.ernie45_vl_bridge", "ernie-4.5-vl", {}),
    "step-3.7": ("stepfun.step37_bridge:Step37Bridge", "step-3.7", {}),
    "exaone-4.5-mtp": ("exaone.exaone45.exaone45_bridge", "exaone-4.5", {"num_nextn_predict_layers": 1}),
    "step-3.7-mtp": ("stepfun.step37_bridge:Step37Bridge", "step-3.7", {"num_nextn_predict_layers": 1}),
    "qwen2-audio": ("qwen_audio.qwen2_audio_bridge", "qwen2-audio", {}),
    "deepseek-v4": ("deepseek.deepseek_v4_bridge", "deepseek-v4", {key: value for key, value in FEW.items() if key != "num_hidden_layers"}),
    "deepseek-v4-mtp": ("deepseek.deepseek_v4_bridge", "deepseek-v4", {"n_routed_experts": 2, "vocab_size": 96, "num_nextn_predict_layers": 1}),
    "qwen2.5-omni": ("qwen_omni.qwen25_omni_bridge", "qwen2.5-omni", {}),
    "qwen3-omni": ("qwen_omni.qwen3_omni_bridge", "qwen3-omni", {}),
    "qwen3-vl": ("qwen_vl.qwen3_vl_bridge:Qwen3VLBridge", "qwen3-vl", {}),
    "qwen3-vl-moe": ("qwen_vl.qwen3_vl_bridge:Qwen3VLMoEBridge", "qwen3-vl-moe", {}),
    "qwen3.5-vl": ("qwen_vl.qwen35_vl_bridge:Qwen35VLBridge", "qwen3.5-vl", {}),
    "qwen3.5-vl-moe": ("qwen_vl.qwen35_vl_bridge:Qwen35VLMoEBridge", "qwen3.5-vl-moe", {}),
    "mimo-v2-flash": ("mimo_v2_flash.mimo_v2_flash_bridge", "mimo-v2-flash", {**FEW, "layer_types": ["full_attention", "sliding_attention"], "mlp_layer_types": ["dense", "sparse"]}),
    "gemma4": ("gemma.gemma4_bridge", "gemma4", {**SMALL, "layer_types": ["sliding_attention", "full_attention"]}),
    "gemma4-keys": ("gemma.gemma4_bridge", "gemma4-keys", {**SMALL, "layer_types": ["sliding_attention", "full_attention"]}),
    "gemma4-experts": ("gemma.gemma4_bridge", "gemma4-experts", {**FEW, "layer_types": ["sliding_attention", "full_attention"]}),
    "qwen3.5-mtp": ("qwen.qwen35_bridge:Qwen35Bridge", "qwen3.5", {**SMALL, "layer_types": ["linear_attention", "full_attention"], "mtp_num_hidden_layers": 1}),
}


class Anything(type):
    """Classes that can be called, subscripted, subclassed, and have every attribute."""

    def __getattr__(cls, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return Anything(name, (), {})

    def __call__(cls, *words, **named):
        if len(words) == 1 and not named and isinstance(words[0], (type, types.FunctionType)):
            return words[0]  # as a decorator
        return super().__call__()

    def __getitem__(cls, _):
        return cls

    def __iter__(cls):
        return iter(())


class Replacement(types.ModuleType):
    __path__ = []

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return Anything(name, (), {})


REPLACED = ("megatron", "rich", "modelopt", "transformer_engine", "mamba_ssm")


class Finder:
    """The modules of Megatron Bridge that are needed, as they are; replacements for all else of REPLACED."""

    OWN = re.compile(r"megatron\.bridge\.(models\.conversion\.(mapping_registry|param_mapping|model_bridge|utils|transformers_compat)"
                     r"|models\.\w+\.(\w+\.)?\w*(bridge|common|mapping\w*)|models\.decorators\.dispatch|utils\.common_utils)$")

    def __init__(self, source):
        self.source = Path(source)

    def find_spec(self, name, path=None, target=None):
        file = self.source / (name.replace(".", "/") + ".py")
        if self.OWN.match(name) and file.exists():
            return importlib.util.spec_from_file_location(name, file)
        return importlib.machinery.ModuleSpec(name, self, is_package=True) if name.split(".")[0] in REPLACED else None

    def create_module(self, spec):
        return Replacement(spec.name)

    def exec_module(self, module):
        pass


class WithoutGpu(types.ModuleType):
    """torch for a bridge that moves values to a GPU."""

    def __getattr__(self, name):
        return (lambda *_: torch.device("cpu", 0)) if name == "device" else getattr(torch, name)


class Ranks:
    """The tensor-parallel ranks, one after the other: rank 0 leaves what it sends for the others."""

    def __init__(self, conversion):
        self.size, self.rank, self.expert_size, self.sent = 1, 0, 1, None
        base = conversion.MegatronParamMapping
        base.tp_size = property(lambda mapping: self.expert_size if mapping.is_expert else self.size)
        base.tp_rank = property(lambda mapping: 0 if mapping.is_expert else self.rank)
        base.scatter_to_tp_ranks = lambda _, splits, *rest, **named: self.send(splits)[self.rank]
        base.broadcast_tensor_to_tp_ranks = lambda _, tensor, src_rank=0: self.send([tensor] * self.size)[self.rank]

    def send(self, pieces):
        if self.rank == 0:
            self.sent = list(pieces)
        return self.sent


ROW = ("linear_proj", "linear_fc2", "out_proj")
COLUMN = ("linear_qkv", "linear_fc1", "linear_fc1_up", "linear_q_up_proj", "linear_kv_up_proj", "linear_q_proj", "in_proj")


def module_class(name):
    """The class of Megatron-core's module that holds a parameter."""
    *_, module, parameter = name.split(".")
    if name.startswith(("thinker.visual.", "thinker.audio_model.", "visual.", "vision_tower.", "audio_tower.", "embed_vision.", "embed_audio.", "multi_modal_projector.", "patch_merge_mlp.", "lightning_indexers.", "resampler_model.", "image_insert_embedding.")):
        return "TENorm" if "norm" in module else "ColumnParallelLinear"
    if name.startswith("vision_model.") and (module in ("patch_norm", "proj", "pos_embed") or not name.startswith(("vision_model.decoder.", "vision_model.merger."))):
        return "TENorm"
    if "hyper_connection" in name or ".compressor." in name or parameter.startswith(("hc_head_", "linear_o_group_proj")):
        return "HyperConnectionModule"
    if parameter == "layer_scalar" or module in ("per_layer_input_gate", "per_layer_projection"):
        return "Gemma4TransformerLayer"
    if module == "per_layer_model_proj":
        return "ColumnParallelLinear"
    if module == "per_layer_embedding":
        return "VocabParallelEmbedding"
    if module == "linear_kv_proj":
        return "TEColumnParallelLinear"
    if module == "word_embeddings":
        return "VocabParallelEmbedding"
    if module == "output_layer":
        return "ColumnParallelLinear"
    if module == "core_attention":
        return "TEDotProductAttention"
    if module == "router":
        return "TopKRouter"
    if module == "shared_experts":
        return "SharedExpertMLP"
    if module == "conv1d" and ".self_attention." in name:
        return "GatedDeltaNet"
    if module in ("mixer", "mamba_mixer", "conv1d") or name.endswith("mixer.norm.weight"):
        return "MambaMixer"
    if "norm" in module:
        return "TENorm"
    if module in ("e_proj", "h_proj"):
        return "TEColumnParallelLinear"
    if module in ROW:
        return "TERowParallelLinear"
    if module in COLUMN:
        return "TELayerNormColumnParallelLinear"
    if module == "eh_proj":
        return "TEColumnParallelLinear"
    if module in ("linear_q_down_proj", "linear_kv_down_proj") or ".indexer." in name:
        return "TELinear"
    if module == "self_attention":
        return "GatedDeltaNet"
    raise ValueError(f"{name}: of which class is its module?")


def first(config, *entries):
    """The first of the entries that the configuration has."""
    return next((getattr(config, entry) for entry in entries if hasattr(config, entry)), None)


def language_config(config):
    """The configuration of the language model in that of a model around it."""
    config = getattr(config, "thinker_config", config)
    return getattr(config, "text_config", config)


def layer_sizes(config, layer):
    """What the attention layers of Megatron Bridge change of these sizes in one layer."""
    is_full = getattr(config, "layer_types", None) and config.layer_types[layer] == "full_attention"
    if config.model_type == "mimo_v2_flash":
        return {"num_query_groups": config.num_key_value_heads * (1 if is_full else 2), "kv_channels": config.head_dim, "v_head_dim": config.v_head_dim}
    if config.model_type == "step3p5":
        heads = config.per_layer_config[layer].num_attention_heads
        return {"num_attention_heads": heads, "num_query_groups": config.num_key_value_heads, "kv_channels": config.head_dim, "attention_output_gate": True}
    if config.model_type == "gemma4_text":
        own = config.per_layer_config[layer]
        return {"num_query_groups": own.num_key_value_heads, "kv_channels": own.head_dim}
    return None


def provider(config, name):
    """Sizes, as Megatron calls them, of the part of a model that has the parameter `name`."""
    if name.startswith("vision_model."):
        heads = first(config.vision_config, "num_heads", "num_attention_heads")
        width = config.vision_config.hidden_size
        groups = getattr(config.vision_config, "num_key_value_heads", heads)
        return types.SimpleNamespace(hidden_size=width, num_attention_heads=heads, num_query_groups=groups, kv_channels=width // heads, attention_output_gate=False)
    config = language_config(config)
    heads = config.num_attention_heads
    if (layer := re.search(r"layers\.(\d+)\.", name)) and (sizes := layer_sizes(config, int(layer[1]))):
        return types.SimpleNamespace(**{"hidden_size": config.hidden_size, "num_attention_heads": heads, "attention_output_gate": False, **sizes})
    return types.SimpleNamespace(
        hidden_size=config.hidden_size,
        num_attention_heads=heads,
        num_query_groups=getattr(config, "num_key_value_heads", heads),
        kv_channels=getattr(config, "head_dim", None) or config.hidden_size // heads,
        mamba_num_heads=first(config, "mamba_num_heads", "mamba_n_heads"),
        mamba_head_dim=first(config, "mamba_head_dim", "mamba_d_head"),
        mamba_num_groups=first(config, "n_groups", "mamba_n_groups"),
        mamba_state_dim=first(config, "ssm_state_size", "mamba_d_state"),
        linear_num_key_heads=first(config, "linear_num_key_heads"),
        linear_num_value_heads=first(config, "linear_num_value_heads"),
        linear_key_head_dim=first(config, "linear_key_head_dim"),
        linear_value_head_dim=first(config, "linear_value_head_dim"),
        attention_output_gate=hasattr(config, "linear_num_key_heads"),
    )


def module(name, shape, config):
    made = type(module_class(name), (torch.nn.Module,), {})()
    made.parallel_mode = "duplicated"
    made.config = provider(config, name)
    made.weight = torch.empty(shape)
    made.alpha_pre = made.alpha_post = made.alpha_res = torch.empty(1)  # of hyper-connections
    return made


def mapped(registry, stored):
    """Megatron's names that a bridge has for a checkpoint, each with its mapping: those whose source is stored."""
    numbers = sorted({tuple(re.findall(r"(?<=\.)\d+(?=\.)", name)) for name in stored})
    layers = sorted({found[0] for found in numbers if found}, key=int)
    experts = [str(number) for number in range(2)]
    for mapping in registry.get_all_mappings():
        if "**" in mapping.megatron_param:
            for source in stored:
                if rest := re.fullmatch(re.escape(mapping.hf_param).replace(r"\*\*", "(.*)"), source):
                    name = mapping.megatron_param.replace("**", rest[1])
                    yield name, registry.megatron_to_hf_lookup(name), {"": source}
            continue
        wanted = mapping.megatron_param.count("*")
        for taken in itertools.product(*[layers, experts][:wanted]):
            name = mapping.megatron_param
            for number in taken:
                name = name.replace("*", number, 1)
            found = registry.megatron_to_hf_lookup(name)
            sources = found.hf_param if isinstance(found.hf_param, dict) else {"": found.hf_param}
            here = all if not getattr(found, "allow_hf_name_mismatch", False) else any
            if here(source in stored for source in sources.values()) and ("local_experts" not in name or "_moe_layer." in name):
                yield name, found, sources


def local_shape(mapping, name, whole, tp):
    """The shape of a rank's parameter, which the mappings look at."""
    of_its_own = ("_FullDimQKNormMapping", "ColumnParallelMapping", "MambaConv1dMapping")
    kind = "Column" if type(mapping).__name__ in of_its_own else module_class(name)
    if tp == 1 or ".experts." in name or name.endswith(("layer_norm_weight", "layer_norm_bias")):
        return whole
    if "Row" in kind and len(whole) > 1:
        return (whole[0], whole[1] // tp)
    split = any(word in kind for word in ("Column", "Embedding", "Attention", "GatedDeltaNet"))
    return (whole[0] // tp, *whole[1:]) if split else whole


def converted(ranks, modules, mapping, name, values, config, whole):
    """What each of the ranks holds."""
    pieces = []
    for ranks.rank in range(ranks.size):
        shape = local_shape(mapping, name, whole, ranks.size)
        for file in modules:
            file.get_module_and_param_from_name = lambda *_: (None, torch.empty(shape))
        held = mapping.hf_to_megatron(values, module(name, shape, config))
        pieces.append(held.contiguous())
    ranks.rank = 0
    return pieces


def whole_shape(name, sources, stored, config):
    """The shape of the unsharded parameter, as far as the mappings need it before they make it."""
    if ".experts.linear_fc" in name and len(sources) == 1:
        config = language_config(config)
        width = getattr(config, "moe_intermediate_size", None) or config.intermediate_size
        out, into = (2 * width, config.hidden_size) if "linear_fc1" in name else (config.hidden_size, width)
        return (out,) if ".bias" in name else (out, into)
    return tuple(stored[next(iter(sources.values()))].shape)


def with_prediction_layer(names, config):
    """The names and shapes of a model with one layer for multi-token prediction behind the others, which transformers does not
    save: another of the last kind, and what joins embedding and hidden state."""
    last, hidden = config.num_hidden_layers - 1, config.hidden_size
    if config.model_type == "deepseek_v4":
        layer = {name.replace(f"layers.{last}.", "mtp.0."): shape for name, shape in names.items() if f"layers.{last}." in name and "compressor" not in name and "indexer" not in name}
        joint = {"enorm.weight": (hidden,), "hnorm.weight": (hidden,), "norm.weight": (hidden,), "e_proj.weight": (hidden, hidden), "h_proj.weight": (hidden, hidden)}
        joint |= {name: names[name] for name in ("hc_head_fn", "hc_head_base", "hc_head_scale")}
        return {**names, **layer, **{f"mtp.0.{name}": shape for name, shape in joint.items()}}
    if config.model_type.startswith(("qwen3", "exaone4")):
        layer = {re.sub(rf"^model\.(language_model\.)?layers\.{last}\.", "mtp.layers.0.", name): shape for name, shape in names.items() if f"layers.{last}." in name}
        joint = {"pre_fc_norm_embedding": (hidden,), "pre_fc_norm_hidden": (hidden,), "fc": (hidden, 2 * hidden), "norm": (hidden,)}
        return {**names, **layer, **{f"mtp.{name}.weight": shape for name, shape in joint.items()}}
    if config.model_type == "step3p5":  # with a dense MLP, as the first layer
        layer = {name.replace(".0.", f".{last + 1}.", 1): shape for name, shape in names.items() if name.startswith("model.layers.0.")}
        joint = {"enorm": (hidden,), "hnorm": (hidden,), "eh_proj": (hidden, 2 * hidden), "transformer.shared_head.norm": (hidden,)}
        return {**names, **layer, **{f"model.layers.{last + 1}.{name}.weight": shape for name, shape in joint.items()}}
    layer = {name.replace(f".{last}.", f".{last + 1}.", 1): shape for name, shape in names.items() if f"layers.{last}." in name}
    joint = {"enorm": (hidden,), "hnorm": (hidden,), "eh_proj": (hidden, 2 * hidden), "shared_head.norm": (hidden,)}
    return {**names, **layer, **{f"model.layers.{last + 1}.{name}.weight": shape for name, shape in joint.items()}}


def model(kind, settings):
    """Configuration and tensors of a checkpoint as transformers saves it, with values that follow from their names."""
    config = getattr(transformers, kind).config_class(**settings)
    config.dtype = "float32"
    with tempfile.TemporaryDirectory() as folder:
        getattr(transformers, kind)(config).save_pretrained(folder)
        names = {name: shape for name, (_, shape, _) in families._tensors(folder).items()}
        stored = json.loads(Path(folder, "config.json").read_text())
    config.allow_global_per_layer_attribute_access = language_config(config).allow_global_per_layer_attribute_access = True
    if config.model_type == "deepseek_v4":
        names = {released(name): shape for name, shape in names.items()}
    text = settings.get("text_config", settings)
    if text.get("num_nextn_predict_layers") or text.get("mtp_num_hidden_layers"):
        names = with_prediction_layer(names, language_config(config))
    return config, stored, {name: torch.from_numpy(megatron_bridge.values(plain(name), shape)) for name, shape in names.items()}


LING = {"model_type": "bailing_moe_v2", "architectures": ["BailingMoeV2ForCausalLM"], "hidden_size": 24, "intermediate_size": 40, "num_hidden_layers": 2,
        "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8, "vocab_size": 96, "max_position_embeddings": 64, "rms_norm_eps": 1e-6, "rope_theta": 600000.0,
        "partial_rotary_factor": 0.5, "num_experts": 2, "num_shared_experts": 1, "num_experts_per_tok": 2, "n_group": 1, "topk_group": 1, "moe_intermediate_size": 32,
        "first_k_dense_replace": 1, "use_qk_norm": True, "use_qkv_bias": False, "tie_word_embeddings": False, "routed_scaling_factor": 2.5, "num_nextn_predict_layers": 1}  # fmt: skip


def ling():
    """The same of a model that transformers does not have: Ling 2.0, with the names and shapes of modeling_bailing_moe_v2.py in
    Megatron Bridge."""
    hidden, heads, groups, head = (LING[key] for key in ("hidden_size", "num_attention_heads", "num_key_value_heads", "head_dim"))
    shapes = {"model.word_embeddings.weight": (LING["vocab_size"], hidden), "model.norm.weight": (hidden,), "lm_head.weight": (LING["vocab_size"], hidden)}
    for layer in range(3):
        rows = (heads + 2 * groups) * head
        found = {"input_layernorm": (hidden,), "post_attention_layernorm": (hidden,), "attention.query_key_value": (rows, hidden), "attention.dense": (hidden, heads * head),
                 "attention.query_layernorm": (head,), "attention.key_layernorm": (head,)}  # fmt: skip
        mlps = [("mlp", LING["intermediate_size"])] if layer == 0 else [(f"mlp.{part}", LING["moe_intermediate_size"]) for part in ("experts.0", "experts.1", "shared_experts")]
        for mlp, width in mlps:
            found |= {f"{mlp}.gate_proj": (width, hidden), f"{mlp}.up_proj": (width, hidden), f"{mlp}.down_proj": (hidden, width)}
        if layer > 0:
            found["mlp.gate"] = (2, hidden)
            shapes[f"model.layers.{layer}.mlp.gate.expert_bias"] = (2,)
        if layer == 2:
            found |= {"enorm": (hidden,), "hnorm": (hidden,), "eh_proj": (hidden, 2 * hidden), "final_layernorm": (hidden,)}
        shapes |= {f"model.layers.{layer}.{name}.weight": shape for name, shape in found.items()}
    config = types.SimpleNamespace(**LING)
    return LING["architectures"][0], config, LING, {name: torch.from_numpy(megatron_bridge.values(name, shape)) for name, shape in sorted(shapes.items())}


def plain(name):
    """The name of an indexer's tensor as released checkpoints have it, which Megatron Bridge converts to its own before."""
    return name.replace("indexer.scorer.", "indexer.")


def released(name):
    """The name that a released checkpoint of DeepSeek-V4 has for a tensor of transformers."""
    name = name.removeprefix("model.").replace("embed_tokens.", "embed.").replace("hc_head.hc_", "hc_head_")
    return name.replace(".attn.norm.", ".attn.kv_norm.").replace("indexer.weights_proj.", "indexer.scorer.weights_proj.")


def of_transformers(key, changes):
    """Class, configuration and tensors of a model of families.py."""
    kind, settings, *_ = {**families.KEPT, **families.MEGATRON, **families.NEWER, **families.BRIDGED, **families.OUTER}[key]
    changes = {entry: value for entry, value in changes.items() if entry in settings or entry not in FEW or entry in SMALL}
    return kind, *model(kind, with_few(settings, changes) or {**settings, **changes})


def with_few(settings, changes):
    """The settings of a model around a language model, with few layers and experts and with changes in the latter; nothing for others."""
    if "thinker_config" in settings:
        return {**settings, "thinker_config": with_few(settings["thinker_config"], changes)}
    if "text_config" not in settings:
        return None
    text = settings["text_config"]
    fewer = {entry: value for entry, value in FEW.items() if entry in text}
    fewer |= {entry: text[entry][:2] for entry in ("layer_types", "mlp_layer_types") if entry in text}
    return {**settings, "text_config": {**text, **fewer, **changes}}


def loaded(path, config, names):
    """The bridge in a file of Megatron Bridge ("FILE" or "FILE:CLASS") for a checkpoint with this configuration and these names, the
    ranks that it converts for, and the modules that convert."""
    conversion = importlib.import_module("megatron.bridge.models.conversion.param_mapping")
    conversion.mpu = types.SimpleNamespace(is_initialized=lambda: False)
    base = importlib.import_module("megatron.bridge.models.conversion.model_bridge").MegatronModelBridge
    path, _, wanted = path.partition(":")
    transformers.AutoConfig.register = transformers.AutoModelForCausalLM.register = lambda *_, **named: None
    file = importlib.import_module(f"megatron.bridge.models.{path}")
    file.torch = WithoutGpu("torch")
    own = next(item for item in vars(file).values() if isinstance(item, type) and issubclass(item, base) and item is not base
               and wanted in ("", item.__name__))
    bridge = object.__new__(own)
    source = types.SimpleNamespace(get_all_keys=lambda: names)
    bridge.hf_config, bridge.hf_pretrained = config, types.SimpleNamespace(config=config, state=types.SimpleNamespace(source=source))
    torch.cuda.current_device = lambda: None
    return bridge, Ranks(conversion), (conversion, file)


def table(family):
    path, key, changes = MODELS[family]
    kind, config, stored, tensors = of_transformers(key, changes) if key else ling()
    bridge, ranks, modules = loaded(path, config, list(tensors))
    rows = {}
    for name, mapping, sources in mapped(bridge.mapping_registry(), tensors):
        if (layer := re.search(r"decoder\.layers\.(\d+)\.", name)) and config.model_type == "step3p7" and int(layer[1]) >= language_config(config).num_hidden_layers:
            continue  # a layer for multi-token prediction, which has another name
        if all(hf in tensors for hf in sources.values()):
            values = {key: tensors[hf] for key, hf in sources.items()}
            values = values if isinstance(mapping.hf_param, dict) else values[""]
        else:  # the bridge makes what is missing
            values = bridge.maybe_modify_loaded_hf_weight(mapping.hf_param, tensors)
            sources = {key: hf for key, hf in sources.items() if hf in tensors}
        ranks.size = 1
        whole = converted(ranks, modules, mapping, name, values, config, whole_shape(name, sources, tensors, config))
        ranks.size = 2
        halves = converted(ranks, modules, mapping, name, values, config, tuple(whole[0].shape))
        rows[name] = [sorted(map(plain, sources.values())), *(megatron_bridge.described(piece.numpy()) for piece in whole + halves)]
    return {"class": kind, "bridge": f"megatron-bridge {VERSION}, {type(bridge).__name__}", "config": stored,
            "hf": {plain(name): list(value.shape) for name, value in tensors.items()}, "mcore": rows}


def main():
    source, out, *wanted = sys.argv[1:]
    sys.meta_path.insert(0, Finder(source))
    for family in wanted or MODELS:
        found = table(family)
        Path(out, f"{family}.json").write_text(megatron_bridge.written(found))
        print(f"{family}: {len(found['hf'])} tensors of {found['class']}, {len(found['mcore'])} names")


if __name__ == "__main__":
    main()
