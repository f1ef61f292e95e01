# SPDX-License-Identifier: Apache-2.0
"""Models of all families that Megatron supports, from transformers to Megatron: Megatron-core builds its model from the
args that tpx wrote, loads exactly the parameters of the checkpoint, and computes the same logits as transformers.
Models that Megatron cannot compute are refused before anything is written."""
import os
import subprocess
import tempfile
import warnings
from pathlib import Path

import transformer_engine_cpu

transformer_engine_cpu.install()
warnings.filterwarnings("ignore")
import safetensors.torch  # noqa: E402
import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
import transformers  # noqa: E402
from torch.distributed.checkpoint import FileSystemReader  # noqa: E402

import load_megatron  # noqa: E402
import megatron_model  # noqa: E402
from families import DENSE, EXPERTS, GLU, LATENT, MEGATRON, NEWER  # noqa: E402
from megatron.core import dist_checkpointing, parallel_state, tensor_parallel  # noqa: E402
from megatron.core.dist_checkpointing.dict_utils import nested_values  # noqa: E402
from megatron.core.dist_checkpointing.mapping import ShardedObject, apply_factories  # noqa: E402
from ranks import on_ranks  # noqa: E402

transformer_engine_cpu.allow_sinks()
TOKENS = torch.arange(3, 3 + 24).reshape(2, 12)
CLOSE = 1e-4  # absolute error of logits, whose standard deviation is about 1

DEEPSEEK = {**LATENT, **EXPERTS, "n_routed_experts": 8, "n_shared_experts": 1, "first_k_dense_replace": 1, "q_lora_rank": 12,
            "kv_lora_rank": 8, "qk_rope_head_dim": 4, "qk_nope_head_dim": 8, "v_head_dim": 8}  # fmt: skip
GLM = MEGATRON["glm-4.5"][1]
NEOX = {**DENSE, "rotary_pct": 0.5, "use_parallel_residual": False}
LLAMA3 = {"rope_type": "llama3", "rope_theta": 500000.0, "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
          "original_max_position_embeddings": 8192}  # fmt: skip
YARN = {"rope_type": "yarn", "rope_theta": 10000.0, "factor": 4.0, "original_max_position_embeddings": 16, "mscale": 1.0}
GPT2 = MEGATRON["gpt2"][1]

# Further settings that Megatron supports, as in families.MEGATRON.
MORE = {
    "mistral": ("MistralForCausalLM", {**GLU, "sliding_window": None, "head_dim": 10}, "pp=2"),
    "llama-multi-query": ("LlamaForCausalLM", {**GLU, "num_key_value_heads": 1, "rope_theta": 77777.0}, "pp=2"),
    "qwen2-window": ("Qwen2ForCausalLM", {**GLU, "use_sliding_window": True, "sliding_window": 4, "max_window_layers": 2}, "tp=2"),
    "qwen2-no-window": ("Qwen2ForCausalLM", {**GLU, "use_sliding_window": False, "sliding_window": 4}, "tp=2"),
    "phi3-window": ("Phi3ForCausalLM", {**GLU, "sliding_window": 4}, "tp=2"),
    "mixtral-window": ("MixtralForCausalLM", {**GLU, "num_local_experts": 4, "sliding_window": 4}, "tp=2"),
    "qwen3-moe-window": ("Qwen3MoeForCausalLM", {**GLU, **EXPERTS, "num_experts": 4, "head_dim": 8, "use_sliding_window": True, "sliding_window": 4}, "tp=2"),
    "qwen3-moe-scores": ("Qwen3MoeForCausalLM", {**GLU, **EXPERTS, "num_experts": 4, "head_dim": 8, "norm_topk_prob": False}, "tp=2,pp=2"),
    "qwen2-moe-tied": ("Qwen2MoeForCausalLM", {**GLU, **EXPERTS, "num_experts": 4, "shared_expert_intermediate_size": 28, "norm_topk_prob": True, "tie_word_embeddings": True}, "tp=2,pp=2"),
    "gpt2-erf": ("GPT2LMHeadModel", {**GPT2, "activation_function": "gelu", "layer_norm_epsilon": 1e-3}, "tp=2"),
    "gpt-neox-tanh": ("GPTNeoXForCausalLM", {**NEOX, "hidden_act": "gelu_new", "rotary_pct": 1.0, "rotary_emb_base": 5000}, "tp=2"),
    "deepseek-v2-groups": ("DeepseekV2ForCausalLM", {**DEEPSEEK, "n_group": 4, "topk_group": 2, "topk_method": "group_limited_greedy", "routed_scaling_factor": 3.0}, "tp=2"),
    "deepseek-v2-greedy": ("DeepseekV2ForCausalLM", {**DEEPSEEK, "n_group": 4, "topk_group": 2, "num_experts_per_tok": 3, "topk_method": "greedy"}, "pp=2"),
    "deepseek-v3-bare": ("DeepseekV3ForCausalLM", {**DEEPSEEK, "first_k_dense_replace": 0, "q_lora_rank": None, "n_group": 1, "topk_group": 1, "routed_scaling_factor": 1.5}, "tp=2,pp=2"),
    "deepseek-v3-dense": ("DeepseekV3ForCausalLM", {**DEEPSEEK, "first_k_dense_replace": 4, "n_group": 1, "topk_group": 1}, "tp=2,pp=2"),
    "glm-4.5-turned": ("Glm4MoeForCausalLM", {**GLM, "partial_rotary_factor": 1.0, "use_qk_norm": False, "routed_scaling_factor": 2.5, "n_group": 2, "topk_group": 1}, "tp=2"),
}  # fmt: skip

# Families with Megatron Bridge's own layers.
BRIDGE = ("olmoe",)

# Biases that are required only because Megatron has a single switch for all biases are zeros if the user allows it.
ZEROS = {
    "llama-attention-biases": ("LlamaForCausalLM", {**GLU, "attention_bias": True}, "tp=2,pp=2"),
    "qwen3-attention-biases": ("Qwen3ForCausalLM", {**GLU, "head_dim": 10, "attention_bias": True}, "tp=2"),
    "gpt-neox-mlp-biases": ("GPTNeoXForCausalLM", {**NEOX, "attention_bias": False}, "tp=2"),
}  # fmt: skip

# Models that must be refused, and a part of tpx's message.
REFUSED = {
    "T7: biases of attention alone": ("LlamaForCausalLM", {**GLU, "attention_bias": True}, "mlp.linear_fc1.bias"),
    "biases of qwen3's attention": ("Qwen3ForCausalLM", {**GLU, "head_dim": 8, "attention_bias": True}, "mlp.linear_fc1.bias"),
    "biases of gpt-neox's MLP alone": ("GPTNeoXForCausalLM", {**NEOX, "attention_bias": False}, "linear_qkv.bias"),
    "llama3 by 4": ("LlamaForCausalLM", {**GLU, "rope_parameters": {**LLAMA3, "factor": 4.0}}, "rope_parameters.factor = 4"),
    "llama3 up to 4096": ("LlamaForCausalLM", {**GLU, "rope_parameters": {**LLAMA3, "original_max_position_embeddings": 4096}}, "original_max_position_embeddings = 4096"),
    "yarn": ("Qwen3ForCausalLM", {**GLU, "head_dim": 8, "rope_parameters": YARN}, "rope_parameters.rope_type = yarn"),
    "linear scaling of gpt-neox": ("GPTNeoXForCausalLM", {**NEOX, "rope_parameters": {"rope_type": "linear", "factor": 2.0, "rope_theta": 10000.0, "partial_rotary_factor": 0.5}}, "rope_parameters.rope_type = linear"),
    "gelu": ("LlamaForCausalLM", {**GLU, "hidden_act": "gelu"}, "--set hidden_act=silu"),
    "relu": ("GPT2LMHeadModel", {**GPT2, "activation_function": "relu"}, "activation_function = relu"),
    "parallel residual": ("GPTNeoXForCausalLM", {**DENSE}, "use_parallel_residual"),
    "scores by layer": ("GPT2LMHeadModel", {**GPT2, "scale_attn_by_inverse_layer_idx": True}, "scale_attn_by_inverse_layer_idx"),
    "one expert": ("MixtralForCausalLM", {**GLU, "num_local_experts": 4, "num_experts_per_tok": 1}, "num_experts_per_tok = 1"),
    "latent epsilon": ("DeepseekV3ForCausalLM", {**DEEPSEEK, "rms_norm_eps": 1e-5, "n_group": 1, "topk_group": 1}, "rms_norm_eps = 1e-05"),
    "other rotation": ("DeepseekV3ForCausalLM", {**DEEPSEEK, "rope_interleave": False, "n_group": 1, "topk_group": 1}, "rope_interleave = false"),
    "best of a group": ("DeepseekV2ForCausalLM", {**DEEPSEEK, "n_group": 4, "topk_group": 2, "num_experts_per_tok": 4, "topk_method": "group_limited_greedy"}, "topk_group = 2"),
    "scores as they are": ("Glm4MoeForCausalLM", {**GLM, "norm_topk_prob": False}, "norm_topk_prob = false"),
}  # fmt: skip


def save(kind, settings, folder):
    """A model with random parameters, all different from Megatron's initial values, and its logits."""
    torch.manual_seed(7)
    model = getattr(transformers, kind)(getattr(transformers, kind).config_class(**settings)).float().eval()
    with torch.no_grad():
        for name, value in [*model.named_parameters(), *model.named_buffers()]:
            if value.is_floating_point() and "inv_freq" not in name:
                value.copy_(torch.randn(value.shape) * 0.2 + ("norm" in name or "ln_" in name) * value)
        result = model(TOKENS).logits
    model.save_pretrained(folder)
    return result


def add_prediction_layer(folder):
    """A layer for multi-token prediction after the others, as in DeepSeek-V3's files."""
    path, last = f"{folder}/model.safetensors", 3
    tensors = safetensors.torch.load_file(path)
    layer = {name.replace(f"layers.{last}.", f"layers.{last + 1}."): value for name, value in tensors.items() if f"layers.{last}." in name}
    hidden = SIZE = tensors["model.norm.weight"].shape[0]
    for name, shape in {"enorm.weight": [hidden], "hnorm.weight": [hidden], "shared_head.norm.weight": [SIZE], "eh_proj.weight": [hidden, 2 * hidden]}.items():
        layer[f"model.layers.{last + 1}.{name}"] = torch.rand(shape)
    safetensors.torch.save_file({**tensors, **{name: value + 0.5 for name, value in layer.items()}}, path, {"format": "pt"})


def sharded(model):
    """The state that the model loads from a checkpoint."""
    return model.sharded_state_dict(metadata={"dp_cp_group": parallel_state.get_data_parallel_group(with_context_parallel=True)})


def load_distributed(folder):
    """The model of a torch_dist checkpoint, built from its args, and the faults of its tensors."""
    directory = load_megatron.iteration_directory(folder)
    model = megatron_model.build(load_megatron.common_state(folder)["args"])
    wanted = sharded(model)
    apply_factories(wanted)
    wanted = {getattr(value, "unique_key" if isinstance(value, ShardedObject) else "key") for value in nested_values(wanted)}
    there = set(FileSystemReader(directory).read_metadata().state_dict_metadata)
    faults = [f"missing in the checkpoint: {name}" for name in sorted(wanted - there)]
    faults += [f"not taken from the checkpoint: {name}" for name in sorted(there - wanted) if "/shard_" not in name]
    if not faults:
        loaded = dist_checkpointing.load({"model": sharded(model)}, directory)
        faults += unloaded(model, model.load_state_dict(loaded["model"], strict=False))
    return model, faults


def load_rank_file(folder):
    """This rank's part of the model of a checkpoint of rank files."""
    tp, pp = parallel_state.get_tensor_model_parallel_rank(), parallel_state.get_pipeline_model_parallel_rank()
    stages = parallel_state.get_pipeline_model_parallel_world_size()
    name = f"mp_rank_{tp:02d}" + (f"_{pp:03d}" if stages > 1 else "")
    state = torch.load(Path(load_megatron.iteration_directory(folder), name, "model_optim_rng.pt"), weights_only=False)
    world = {
        "tensor_model_parallel_size": parallel_state.get_tensor_model_parallel_world_size(), "pipeline_model_parallel_size": stages,
        "expert_tensor_parallel_size": parallel_state.get_expert_tensor_parallel_world_size(),
    }  # fmt: skip
    model = megatron_model.build(state["args"], **world)
    return model, unloaded(model, model.load_state_dict(state["model"], strict=False))


def unloaded(model, result):
    """Faults of loading a state into the model. Only some versions of TransformerEngine have extra states in norms and
    attention, so rank files, which Megatron loads without unexpected keys, have none of these."""
    optional = ("norm._extra_state", "core_attention._extra_state")
    faults = [f"missing in the state: {name}" for name in result.missing_keys if not name.endswith(optional)]
    faults += [f"unexpected in the state: {name}" for name in result.unexpected_keys]
    named = [*model.named_parameters(), *model.named_buffers()]
    return faults + [f"not loaded: {name}" for name, value in named if value.is_floating_point() and value.isnan().any()]


def faults_of(form, folder, expected):
    try:
        model, faults = (load_distributed if form == "torch_dist" else load_rank_file)(folder)
    except Exception as error:
        faults = [f"{type(error).__name__}: {error}"]
    everywhere = [None] * dist.get_world_size()
    dist.all_gather_object(everywhere, faults)
    if any(everywhere):
        return faults
    found = megatron_model.logits(model, TOKENS)
    if found is None:
        return []
    apart = float((found[..., : expected.shape[-1]] - expected).abs().max())
    return [] if apart < CLOSE else [f"logits differ by {apart:.2g}, their standard deviation is {expected.std():.2g}"]


def check_all(cases, tp, pp):
    """Faults of each case on this rank of tp * pp."""
    parallel_state.initialize_model_parallel(tp, pp)
    tensor_parallel.model_parallel_cuda_manual_seed(1)
    found = {}
    for name, (form, folder, expected) in cases.items():
        try:
            found[name] = faults_of(form, folder, expected)
        except Exception as error:
            if dist.get_world_size() > 1:
                raise RuntimeError(f"{name}: {error}") from error  # the others wait
            found[name] = [f"{type(error).__name__}: {error}"]
    return found


def reshard(tpx, source, out, to, form, *more):
    command = [tpx, "reshard", source, out, "--to", to, "--format", form, "--quiet", "--set", "make_vocab_size_divisible_by=8", *more]
    return subprocess.run(command, capture_output=True, text=True)


def convert_all(tpx, scratch, only):
    """Converted checkpoints by layout, and failures."""
    cases, failed = {(1, 1): {}, (2, 2): {}}, {}
    newer = {name: entry for name, entry in NEWER.items() if name not in BRIDGE}
    families = {**MEGATRON, **MORE, **ZEROS, "deepseek-v3-mtp": MEGATRON["deepseek-v3"], **newer}
    for family, (kind, settings, layout) in families.items():
        if only and family not in only:
            continue
        source = f"{scratch}/{family}"
        expected = save(kind, settings, source)
        if family.endswith("-mtp"):
            add_prediction_layer(source)
            # Megatron needs all prediction layers that args contain, so config.json has them, too.
            layout = "tp=2"
        local = ["--set", "transformer_impl=local"]
        ways = (
            ("torch_dist", layout, (1, 1), []), ("torch_dist", "tp=1", (1, 1), local), ("megatron", "tp=1", (1, 1), []), ("megatron", "tp=1", (1, 1), local), ("megatron", "tp=2,pp=2", (2, 2), []),
        )  # fmt: skip
        for form, to, degrees, more in ways if family not in NEWER else (ways[0], ways[3] if family == "gpt-oss" else ways[4]):  # biases of experts want etp=1
            if degrees == (2, 2) and settings.get("num_key_value_heads") == 1:
                continue
            name = f"{family} to {form} {to}{' local' if more else ''}"
            out = f"{scratch}/{name.replace(' ', '_')}"
            done = reshard(tpx, source, out, to, form, *more, *(["--allow-missing"] if family in ZEROS else []))
            if done.returncode:
                failed[name] = [f"exit {done.returncode}: {done.stderr.strip()}"]
            else:
                cases[degrees][name] = (form, out, expected)
    return cases, failed


def refuse_all(tpx, scratch, only):
    faults = {}
    for number, (name, (kind, settings, says)) in enumerate(REFUSED.items()):
        if only and name not in only:
            continue
        source, out = f"{scratch}/refused{number}", f"{scratch}/refused{number}-out"
        save(kind, settings, source)
        for form in ("torch_dist", "megatron"):
            done = reshard(tpx, source, out, "tp=1", form)
            wrong = done.returncode not in (1, 2) or says not in done.stderr or os.path.exists(out)
            faults[f"refuse {name} ({form})"] = [f"exit {done.returncode}: {done.stderr.strip()}"] if wrong else []
    return faults


def main(tpx, only=()):
    transformers.logging.set_verbosity_error()
    with tempfile.TemporaryDirectory() as scratch:
        found = refuse_all(tpx, scratch, only)
        cases, failed = convert_all(tpx, scratch, only)
        found.update(failed)
        for (tp, pp), some in cases.items():
            try:
                for faults in on_ranks(tp * pp, check_all, some, tp, pp) if some else []:
                    for name, lines in faults.items():
                        found[name] = found.get(name, []) + lines
            except RuntimeError as error:
                found[f"tp={tp},pp={pp}"] = [str(error)]
    for name, faults in found.items():
        print(f"{'FAIL' if faults else 'ok'}: {name}")
        for line in faults[:6]:
            print(f"  {line}")
    return 1 if any(found.values()) else 0
