# SPDX-License-Identifier: Apache-2.0
"""The output of tpx for transformers is the same model as its source, or tpx refuses and names the missing option: for
Megatron checkpoints that do not record their Hugging Face model type, and for torchtitan checkpoints, which do not
describe the model. The parameters that tpx expects for a config.json are those that transformers creates."""
import json
import shutil
import subprocess
import tempfile
from pathlib import Path

import torch
import transformers
from safetensors.torch import load_file, save_file

import families

# Values of Megatron's args that a model does not use.
UNUSED = {
    "moe_router_topk_scaling_factor": None, "moe_router_num_groups": None, "moe_router_group_topk": None, "num_experts": None,
    "moe_router_topk": 2, "moe_router_pre_softmax": False, "moe_router_score_function": "softmax", "moe_layer_freq": 1,
    "moe_shared_expert_intermediate_size": None, "moe_router_enable_expert_bias": False, "mtp_num_layers": None,
    "multi_latent_attention": False, "kv_lora_rank": 32, "qk_head_dim": 128, "qk_pos_emb_head_dim": 64, "v_head_dim": 128,
    "q_lora_rank": None, "window_size": None, "window_attn_skip_freq": None, "rotary_percent": 1.0, "rotary_interleaved": False,
    "rotary_seq_len_interpolation_factor": None, "use_rope_scaling": False, "rope_scaling_factor": 8.0, "rope_type": None,
    "apply_residual_connection_post_layernorm": False, "layernorm_zero_centered_gamma": False, "softmax_type": "vanilla",
    "no_rope_freq": None, "qk_l2_norm": False, "squared_relu": False, "quick_geglu": False, "glu_linear_offset": 0.0,
    "attention_output_gate": False, "activation_func_clamp_value": None, "heterogeneous_layers_config_path": None,
}  # fmt: skip
OWN = ("hf_model_type", "sliding_window", "use_parallel_residual", "original_max_position_embeddings", "pad_token_id")

# Settings that no model in transformers follows: Megatron's name, and its name in a message.
DEVIATIONS = {
    "llama": [({"layernorm_zero_centered_gamma": True}, "layernorm_zero_centered_gamma"),
              ({"normalization": "LayerNorm"}, "normalization"), ({"position_embedding_type": "none"}, "position_embedding_type"),
              ({"no_rope_freq": [1, 1, 0, 0]}, "no_rope_freq"), ({"softmax_type": "off-by-one"}, "softmax_type"),
              ({"window_size": (3, 0)}, "window_size"), ({"softmax_scale": 0.3}, "softmax_scale")],
    "qwen3": [({"rotary_interleaved": True}, "rotary_interleaved"), ({"no_rope_freq": 4}, "no_rope_freq")],
    "qwen3-moe": [({"moe_router_score_function": "sigmoid"}, "moe_router_score_function"), ({"moe_router_topk_scaling_factor": 2.5}, "moe_router_topk_scaling_factor"),
                  ({"moe_router_enable_expert_bias": True}, "moe_router_enable_expert_bias"), ({"moe_router_load_balancing_type": "sinkhorn"}, "sinkhorn")],
    "mixtral": [({"moe_router_pre_softmax": True}, "_norm"), ({"moe_router_topk_scaling_factor": 2.5}, "moe_router_topk_scaling_factor")],
    "deepseek-v3": [({"moe_router_score_function": "softmax"}, "moe_router_score_function")],
    "gpt2": [({"squared_relu": True}, "squared_relu"), ({"apply_residual_connection_post_layernorm": True}, "apply_residual_connection_post_layernorm")],
}  # fmt: skip

# Settings that another model in transformers follows; tpx then writes that model.
FOLLOWED = {"llama": [({"rotary_interleaved": True}, "ernie4_5"), ({"no_rope_freq": 4}, "smollm3")]}

# Settings of Hugging Face models that Megatron's args lack.
REFUSED = {"mistral-window": ["window_size"], "deepseek-v2": ["moe_router_score_function"], "ministral": ["window_attn_skip_freq"],
           "starcoder2": ["window_size"], "gpt-oss": ["window_size"], "olmoe": ["q_layernorm"], "exaone-moe": ["model_type"]}  # fmt: skip

# model_type, its smallest configuration, and the settings that add or remove parameters.
DENSE = {"hidden_size": 24, "num_hidden_layers": 4, "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 101, "intermediate_size": 40, "pad_token_id": 0}
EXPERTS = {**DENSE, "num_experts_per_tok": 2, "moe_intermediate_size": 32}
LATENT = {**EXPERTS, "num_key_value_heads": 4, "kv_lora_rank": 8, "qk_rope_head_dim": 4, "qk_nope_head_dim": 8, "v_head_dim": 6, "n_routed_experts": 4, "n_shared_experts": 1, "num_nextn_predict_layers": 0}
HEAD = {"head_dim": 8}
PARAMETERS = [
    ("llama", DENSE, [{}, {"attention_bias": True}, {"mlp_bias": True}, {"tie_word_embeddings": True}, HEAD]),
    ("mistral", DENSE, [{}, {"attention_bias": True, "mlp_bias": True}, HEAD]),
    ("qwen2", DENSE, [{}, {"attention_bias": False}, {"attention_bias": True, "mlp_bias": True}, {"tie_word_embeddings": True}]),
    ("qwen3", {**DENSE, **HEAD}, [{}, {"attention_bias": True}, {"mlp_bias": True}]),
    ("phi3", DENSE, [{}, {"attention_bias": True}]),
    ("mixtral", {**DENSE, "num_local_experts": 4}, [{}, {"attention_bias": True}, {"num_experts_per_tok": 1}]),
    ("qwen3_moe", {**EXPERTS, **HEAD, "num_experts": 4}, [{}, {"attention_bias": True}, {"mlp_only_layers": [0, 2]}, {"decoder_sparse_step": 2}, {"shared_expert_intermediate_size": 28}]),
    ("qwen2_moe", {**EXPERTS, "num_experts": 4, "shared_expert_intermediate_size": 28}, [{}, {"qkv_bias": False}, {"mlp_only_layers": [1]}, {"attention_bias": True}]),
    ("deepseek_v2", LATENT, [{"first_k_dense_replace": 1, "q_lora_rank": None}, {"q_lora_rank": 12, "n_shared_experts": 2}, {"attention_bias": True, "q_lora_rank": 12}]),
    ("deepseek_v3", LATENT, [{"first_k_dense_replace": 1, "q_lora_rank": 12}, {"first_k_dense_replace": 4, "q_lora_rank": None}, {"attention_bias": True, "q_lora_rank": 12, "first_k_dense_replace": 2}]),
    ("glm4_moe", {**EXPERTS, **HEAD, "n_routed_experts": 4, "num_nextn_predict_layers": 0}, [{}, {"use_qk_norm": True}, {"attention_bias": True}, {"first_k_dense_replace": 4, "n_shared_experts": 2}]),
    ("gpt2", {"n_layer": 4, "n_embd": 24, "n_head": 4, "n_positions": 32, "vocab_size": 101}, [{}, {"n_inner": 40}, {"tie_word_embeddings": False}]),
    ("olmo", DENSE, [{}, {"attention_bias": True}]),
    ("olmo2", DENSE, [{}, {"attention_bias": True}]),
    ("olmo3", DENSE, [{}]),
    ("flex_olmo", {**DENSE, "num_experts": 4}, [{}]),
    ("exaone4", DENSE, [{}]),
    ("glm", {**DENSE, **HEAD}, [{}, {"attention_bias": False}]),
    ("glm4", {**DENSE, **HEAD}, [{}, {"attention_bias": False}]),
    ("minimax_m2", {**DENSE, **HEAD, "num_local_experts": 4}, [{}]),
    ("granite", DENSE, [{}, {"attention_bias": True, "mlp_bias": True}]),
    ("granite_swa", {**DENSE, "tie_word_embeddings": True}, [{}]),
    ("granitemoe", {**DENSE, "num_local_experts": 4}, [{}, {"attention_bias": True}]),
    ("granitemoeshared", {**DENSE, "num_local_experts": 4, "shared_intermediate_size": 28}, [{}, {"attention_bias": True}]),
    ("llama4_text", {**DENSE, **HEAD, "intermediate_size_mlp": 36, "num_local_experts": 4}, [{}, {"interleave_moe_layer_step": 2}, {"moe_layers": [0, 3]}, {"attention_bias": True}]),
    ("cohere", DENSE, [{}, {"use_qk_norm": True, "attention_bias": True}, {"tie_word_embeddings": False}]),
    ("cohere2", {**DENSE, **HEAD}, [{}, {"attention_bias": True}]),
    ("phi", DENSE, [{}, {"qk_layernorm": True}]),
    ("hunyuan_v1_dense", {**DENSE, **HEAD}, [{}, {"attention_bias": True}]),
    ("hunyuan_v1_moe", {**DENSE, **HEAD, "num_experts": 4, "moe_topk": 2, "num_shared_expert": 1}, [{}, {"attention_bias": True}]),
    ("qwen3_next", {**EXPERTS, **HEAD, **families.DELTA, "num_experts": 4, "shared_expert_intermediate_size": 28}, [{}, {"mlp_only_layers": [1]}, {"full_attention_interval": 2}, {"attention_bias": True}, {"layer_types": ["full_attention", "linear_attention"] * 2}]),
    ("qwen3_5_text", {**DENSE, **HEAD, **families.DELTA}, [{}, {"attention_bias": True}]),
    ("qwen3_5_moe_text", {**EXPERTS, **HEAD, **families.DELTA, "num_experts": 4, "shared_expert_intermediate_size": 28}, [{}]),
    ("ernie4_5", {**DENSE, **HEAD}, [{}, {"use_bias": True}, {"tie_word_embeddings": False}]),
    ("ernie4_5_moe", {**DENSE, "moe_num_experts": 4, "moe_k": 2, "moe_intermediate_size": 32, "moe_num_shared_experts": 1}, [{}, {"use_bias": True}, {"moe_layer_start_index": 0, "moe_layer_end_index": 2, "moe_layer_interval": 1}]),
    ("seed_oss", {**DENSE, **HEAD}, [{}, {"attention_bias": False, "attention_out_bias": True, "mlp_bias": True}]),
    ("smollm3", DENSE, [{}, {"attention_bias": True, "mlp_bias": True, "tie_word_embeddings": False}]),
    ("ministral", {**DENSE, **HEAD}, [{}]),
    ("ministral3", {**DENSE, **HEAD}, [{}]),
    ("dots1", {**EXPERTS, "n_routed_experts": 4, "n_shared_experts": 1}, [{}, {"first_k_dense_replace": 2, "attention_bias": True}]),
    ("solar_open", {**EXPERTS, **HEAD, "n_routed_experts": 4}, [{}, {"attention_bias": True}]),
    ("glm4_moe_lite", {**LATENT, "q_lora_rank": 12}, [{}, {"mlp_layer_types": ["sparse", "dense"] * 2}, {"attention_bias": True}]),
    ("gpt_oss", {**DENSE, **HEAD, "num_local_experts": 4}, [{}]),
    ("olmoe", {**DENSE, "num_experts": 4}, [{}, {"attention_bias": True}]),
    ("starcoder2", DENSE, [{}, {"use_bias": False}, {"tie_word_embeddings": False}]),
    ("stablelm", DENSE, [{}, {"use_qkv_bias": True}]),
    ("gpt_neox", {key: DENSE[key] for key in DENSE if key != "num_key_value_heads"}, [{}, {"attention_bias": False}, {"tie_word_embeddings": True}]),
]  # fmt: skip


def run(tpx, *words):
    return subprocess.run([tpx, *map(str, words)], capture_output=True, text=True)


def to_hf(tpx, source, out, *more):
    shutil.rmtree(out, ignore_errors=True)
    return run(tpx, "reshard", source, out, "--quiet", "--to", "tp=1", "--format", "safetensors", *more)


def logits_of(folder, faults):
    """The logits of the model in the folder's config.json; every parameter must come from its files."""
    config = transformers.AutoConfig.from_pretrained(folder)
    # For Emu3, the automatic class knows only the model with images.
    kind = transformers.AutoModelForCausalLM if type(config) in transformers.MODEL_FOR_CAUSAL_LM_MAPPING else getattr(transformers, config.architectures[0])
    model, info = kind.from_pretrained(folder, output_loading_info=True, dtype="auto")
    for what in ("missing_keys", "unexpected_keys", "mismatched_keys", "error_msgs"):
        if info.get(what):
            faults.append(f"transformers: {what}: {sorted(map(str, info[what]))[:3]}")
    if type(model).__name__ != model.config.architectures[0]:
        faults.append(f"transformers makes a {type(model).__name__} of architectures {model.config.architectures}")
    return families._logits(model)


def same_model(done, hf, out, refusals=()):
    """Faults: the model in `out` must compute the same as that in `hf`, or the refusal must contain one of the expected
    words."""
    if done.returncode in (1, 2) and any(word in done.stderr for word in refusals):
        return []
    if done.returncode != 0:
        return [f"exit {done.returncode}: {done.stderr.strip()}"]
    faults = []
    before, after = logits_of(hf, faults), logits_of(out, faults)
    if not torch.equal(before, after):
        faults.append(f"other logits, by up to {(before - after).abs().max():.3g}")
    return faults


def is_refused(done, out, word):
    if done.returncode == 2 and word in done.stderr and not out.exists():
        return []
    return [f"exit {done.returncode} instead of a refusal that names {word}: {done.stderr.strip()}"]


def with_args(folder, change):
    """Changes Megatron's args in a torch_dist checkpoint with `change`."""
    path = next(Path(folder).rglob("common.pt"))
    state = torch.load(path, weights_only=False)
    change(vars(state["args"]))
    torch.save(state, path)


def make_native(args):
    """Args as Megatron writes them: without the entries of tpx, with entries that the model does not use."""
    for key in OWN:
        if key != "sliding_window" or args.get("window_size"):
            args.pop(key, None)
    for key, value in UNUSED.items():
        args.setdefault(key, value)
    if args["moe_router_topk_scaling_factor"] == 1:
        args["moe_router_topk_scaling_factor"] = None
    if args["moe_router_num_groups"] == 1:
        args["moe_router_num_groups"] = args["moe_router_group_topk"] = None


def megatron(tpx, name, scratch):
    kind, settings, _ = {**families.MEGATRON, **families.NEWER}[name]
    hf, there, out = (Path(scratch, part) for part in ("hf", "there", "out"))
    families._save(kind, settings, hf)
    done = run(tpx, "reshard", hf, there, "--quiet", "--to", "tp=1", "--format", "torch_dist", *families.PADDED)
    if done.returncode != 0:
        return [] if "Megatron" in done.stderr else [done.stderr.strip()]  # the other direction is another test's
    next(there.rglob("config.json")).unlink()
    with_args(there, make_native)
    faults = same_model(to_hf(tpx, there, out), hf, out, REFUSED.get(name, ()))
    for changes, word in DEVIATIONS.get(name, []):
        shutil.rmtree(Path(scratch, "other"), ignore_errors=True)
        other = shutil.copytree(there, Path(scratch, "other"))
        with_args(other, lambda args, changes=changes: args.update(changes))
        faults += is_refused(to_hf(tpx, other, out), out, word)
    for changes, model_type in FOLLOWED.get(name, []):
        other = shutil.copytree(there, Path(scratch, model_type))
        with_args(other, lambda args, changes=changes: args.update(changes))
        done = to_hf(tpx, other, out)
        found = json.loads((out / "config.json").read_text())["model_type"] if done.returncode == 0 else done.stderr.strip()
        faults += [] if found == model_type else [f"{changes} should be of {model_type}: {found}"]
    return faults


def titan(tpx, name, scratch):
    kind, settings, _ = families.MEGATRON[name]
    hf, there, out = (Path(scratch, part) for part in ("hf", "there", "out"))
    families._save(kind, settings, hf)
    done = run(tpx, "reshard", hf, there, "--quiet", "--to", "fsdp=2", "--format", "dcp")
    if done.returncode != 0:
        return [done.stderr.strip()]
    faults = same_model(to_hf(tpx, there, out), hf, out)
    (there / "config.json").unlink()
    faults += is_refused(to_hf(tpx, there, out), out, "num_attention_heads")
    config = json.loads((hf / "config.json").read_text())
    heads = [f"--set={key}={config[key]}" for key in ("num_attention_heads", "num_key_value_heads", "num_experts_per_tok") if key in config]
    faults += is_refused(to_hf(tpx, there, out, *heads), out, "rope_theta")
    done = to_hf(tpx, there, out, "--config", hf / "config.json")
    faults += same_model(done, hf, out)
    if done.returncode == 0 and (out / "config.json").read_bytes() != (hf / "config.json").read_bytes():
        faults.append("config.json is not the one that was given")
    rest = {"rope_theta": config["rope_parameters"]["rope_theta"], "rms_norm_eps": config["rms_norm_eps"],
            "max_position_embeddings": config["max_position_embeddings"], "norm_topk_prob": json.dumps(config.get("norm_topk_prob", True)),
            "tie_word_embeddings": json.dumps(config["tie_word_embeddings"]), "model_type": config["model_type"]}  # fmt: skip
    given = [*heads, *[f"--set={key}={value}" for key, value in rest.items()]]
    if config["rope_parameters"]["rope_type"] == "default":
        faults += same_model(to_hf(tpx, there, out, *given), hf, out)
    done = to_hf(tpx, there, out, "--config", hf / "config.json", "--dtype", "f32")
    if done.returncode != 0 or json.loads((out / "config.json").read_text())["dtype"] != "float32":
        faults.append("--dtype f32 is not in config.json")
    return faults


def _rename(folder, rename):
    path = folder / "model.safetensors"
    tensors = load_file(path)
    save_file({rename(name): value for name, value in tensors.items()}, path, {"format": "pt"})


def wrapped(tpx, prefix, scratch):
    """Names with the prefix of a wrapper around the model are not transformers names."""
    hf, there, out = (Path(scratch, part) for part in ("hf", "there", "out"))
    families._save("LlamaForCausalLM", {**families.GLU, "tie_word_embeddings": False}, hf)
    shutil.copytree(hf, there)
    _rename(there, lambda name: prefix + name)
    return same_model(to_hf(tpx, there, out), hf, out)


def tied(tpx, scratch):
    """A head that was trained separately although config.json says that it is tied (H1); and a head that is a copy."""
    hf, there, out = (Path(scratch, part) for part in ("hf", "there", "out"))
    settings = {**families.GLU, "tie_word_embeddings": True}
    families._save("LlamaForCausalLM", settings, hf)
    tensors = load_file(hf / "model.safetensors")
    head = tensors["model.embed_tokens.weight"].clone()
    save_file({**tensors, "lm_head.weight": head}, hf / "model.safetensors", {"format": "pt"})
    words = ["--quiet", "--to", "tp=1", "--format", "torch_dist", *families.PADDED]
    done = run(tpx, "reshard", hf, there, *words)
    faults = [done.stderr.strip()] if done.returncode else same_model(to_hf(tpx, there, out), hf, out)
    save_file({**tensors, "lm_head.weight": head + 1}, hf / "model.safetensors", {"format": "pt"})
    done = run(tpx, "reshard", hf, there / "refused", *words)
    if done.returncode != 1 or "tie_word_embeddings=false" not in done.stderr:
        faults.append(f"exit {done.returncode} for a head that is not tied: {done.stderr.strip()}")
    shutil.rmtree(there)
    done = run(tpx, "reshard", hf, there, *words, "--set", "tie_word_embeddings=false")
    config = json.loads((hf / "config.json").read_text())
    (hf / "config.json").write_text(json.dumps({**config, "tie_word_embeddings": False}))
    return faults + ([done.stderr.strip()] if done.returncode else same_model(to_hf(tpx, there, out), hf, out))


def parameters(tpx, model_type, config, scratch):
    """The number of elements that tpx plans for a config.json, and the number that transformers creates."""
    path = Path(scratch, "config.json")
    path.write_text(json.dumps({"model_type": model_type, **config}))
    done = run(tpx, "plan", "--model", path, "--from", "tp=1", "--to", "tp=1", "--json")
    if done.returncode != 0:
        return [done.stderr.strip()]
    planned = json.loads(done.stdout)["roles"]["weight"]["needed"] // 2
    with torch.device("meta"):
        model = transformers.AutoModelForCausalLM.from_config(transformers.AutoConfig.from_pretrained(scratch))
    tensors = {id(value): value.numel() for value in model.parameters()}
    made = sum(tensors.values()) + sum(value.numel() for name, value in model.named_buffers() if name.endswith("e_score_correction_bias"))
    return [] if planned == made else [f"{planned} elements instead of {made}"]


def main(tpx):
    transformers.logging.set_verbosity_error()
    checks = [(f"{name} out of Megatron's own args", megatron, (name,)) for name in (*families.MEGATRON, *families.NEWER)]
    checks += [(f"{name} out of torchtitan's names", titan, (name,)) for name in ("llama", "qwen2", "qwen3", "llama-scaled", "mixtral", "qwen3-moe")]
    checks += [(f"names below {prefix}", wrapped, (prefix,)) for prefix in ("module.", "_orig_mod.", "base_model.model.")]
    checks += [("heads that config.json calls tied", tied, ())]
    checks += [
        (f"parameters of {model_type} with {more or 'its defaults'}", parameters, (model_type, {**config, **more}))
        for model_type, config, variants in PARAMETERS
        for more in variants
    ]
    failed = 0
    for what, check, arguments in checks:
        with tempfile.TemporaryDirectory() as scratch:
            try:
                faults = check(tpx, *arguments, scratch)
            except Exception as error:
                faults = [f"{type(error).__name__}: {error}"]
        failed += bool(faults)
        print(f"{'FAIL' if faults else 'ok'}: {what}")
        for line in faults[:6]:
            print(f"  {line}")
    return 1 if failed else 0
