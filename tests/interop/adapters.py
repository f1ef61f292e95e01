# SPDX-License-Identifier: Apache-2.0
"""Adapters: tpx merges LoRA and DoRA adapters to the same bits as PEFT's merge_and_unload() on a CPU, for models of
transformers in three dtypes and for a quantized model. Merging for two ranks gives the same bits. Adapters of PEFT become those
of Megatron Bridge's CanonicalLoRA and come back, and those of Bridge's LoRA, which share a matrix between queries, keys and
values, change weights in PEFT as they do in Bridge."""
import os
import subprocess
import sys
import tempfile
from pathlib import Path

# PyTorch computes DoRA's norms with as many partial sums as a vector has elements; tpx always sums as with AVX2.
os.environ["ATEN_CPU_CAPABILITY"] = "avx2"

import torch  # noqa: E402
from safetensors.torch import load_file, save_file  # noqa: E402
from transformers import AutoModelForCausalLM, GPT2Config, GptOssConfig, LlamaConfig, MixtralConfig, NemotronHConfig, Qwen2Config, Qwen3MoeConfig  # noqa: E402

DATA = Path(__file__).resolve().parents[2] / "testdata"
LLAMA = LlamaConfig(hidden_size=128, intermediate_size=224, num_hidden_layers=2, num_attention_heads=8,
                    num_key_value_heads=4, vocab_size=96, tie_word_embeddings=False)
QWEN = Qwen2Config(hidden_size=64, intermediate_size=96, num_hidden_layers=2, num_attention_heads=4,
                   num_key_value_heads=2, vocab_size=96, tie_word_embeddings=True, use_sliding_window=False)
GPT2 = GPT2Config(n_embd=64, n_layer=2, n_head=4, vocab_size=96, n_positions=32)
QWEN3MOE = Qwen3MoeConfig(hidden_size=64, intermediate_size=96, moe_intermediate_size=40, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
                          head_dim=16, num_experts=6, num_experts_per_tok=2, vocab_size=96, mlp_only_layers=[])
GPT_OSS = GptOssConfig(hidden_size=64, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, head_dim=16,
                       num_local_experts=4, num_experts_per_tok=2, vocab_size=96, sliding_window=8, pad_token_id=0, eos_token_id=2)
MIXTRAL = MixtralConfig(hidden_size=64, intermediate_size=40, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, vocab_size=96, num_local_experts=6)
NEMOTRON_H = NemotronHConfig(hidden_size=64, intermediate_size=96, num_attention_heads=4, num_key_value_heads=2, head_dim=16, vocab_size=96, mamba_num_heads=4, mamba_head_dim=8,
                             n_groups=2, ssm_state_size=4, layers_block_type=["linear_attention", "full_attention", "mlp"])
ALL = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
PATTERNS = {"rank_pattern": {"layers.1.self_attn.q_proj": 16, "^model.layers.0.mlp.up_proj": 4},
            "alpha_pattern": {"down_proj": 5, r"layers\.\d+\.self_attn.k_proj": 3}}
EXPERTS = {"r": 4, "lora_alpha": 6, "target_modules": ["q_proj"], "target_parameters": ["mlp.experts.gate_up_proj", "mlp.experts.down_proj"]}
BF16, F16, F32 = torch.bfloat16, torch.float16, torch.float32
# Each kind of adapter, with the dtype of its base and the dtype of the stored adapter; None: the dtype in which PEFT saves it.
CASES = [
    ("llama", LLAMA, F32, None, {"r": 8, "lora_alpha": 16, "target_modules": ["q_proj", "v_proj"]}),
    ("patterns", LLAMA, F16, None, {"r": 8, "lora_alpha": 12, "target_modules": ALL, "use_rslora": True, **PATTERNS}),
    ("dora", LLAMA, BF16, None, {"r": 8, "lora_alpha": 16, "target_modules": ALL, "use_dora": True}),
    ("dora of f32", LLAMA, F32, BF16, {"r": 8, "lora_alpha": 16, "target_modules": ["up_proj"], "use_dora": True}),
    ("modules", LLAMA, BF16, None, {"r": 4, "target_modules": ["down_proj"], "modules_to_save": ["lm_head", "embed_tokens"]}),
    ("biases", QWEN, F16, None, {"r": 4, "target_modules": ["q_proj", "v_proj"], "bias": "all"}),
    ("embedding", QWEN, BF16, None, {"r": 4, "lora_alpha": 6, "target_modules": ["embed_tokens", "up_proj"]}),
    ("transposed", GPT2, F16, None, {"r": 8, "lora_alpha": 3, "target_modules": ["c_attn", "c_proj"], "fan_in_fan_out": True}),
    ("experts", QWEN3MOE, BF16, None, EXPERTS),
    ("experts, one parameter", QWEN3MOE, F32, BF16, {"r": 3, "lora_alpha": 6, "target_modules": ["q_proj"], "target_parameters": ["down_proj"], "use_rslora": True}),
    ("experts together", GPT_OSS, BF16, None, {"r": 4, "lora_alpha": 6, "target_modules": ["v_proj"], "target_parameters": ["mlp.experts.gate_up_proj", "mlp.experts.down_proj"]}),
    ("square experts", Qwen3MoeConfig(**{**QWEN3MOE.to_dict(), "moe_intermediate_size": 64}), BF16, None, EXPERTS),
    ("square experts together", GptOssConfig(**{**GPT_OSS.to_dict(), "intermediate_size": 64}), BF16, None, EXPERTS),
    # PEFT makes target_parameters of the modules of experts, with a rank_pattern for those that transformers stores as one.
    ("experts as modules", QWEN3MOE, BF16, None, {"r": 3, "lora_alpha": 5, "target_modules": ALL, "use_rslora": True}),
    ("experts with patterns", MIXTRAL, F32, None, {**EXPERTS, "rank_pattern": {"experts.down_proj": 3}, "alpha_pattern": {"experts.gate_up_proj": 5}}),
    ("router", MIXTRAL, BF16, None, {"r": 4, "lora_alpha": 6, "target_modules": ["q_proj", "gate", "w1", "w2", "w3"]}),
    ("saved under other names", NEMOTRON_H, BF16, None, {"r": 4, "lora_alpha": 6, "target_modules": ["q_proj", "up_proj", "down_proj"], "modules_to_save": ["norm_f"]}),
    ("regular expressions", LLAMA, BF16, None, {"r": 4, "target_modules": r".*\.(q|o|up)_proj", "rank_pattern": {r"model\.layers\.[01]\.self_attn\.(q|v)_proj": 2}}),
    # PEFT unties an embedding and an output layer that it replaces by different values.
    ("output layer of tied", QWEN, BF16, None, {"r": 4, "target_modules": ["q_proj"], "modules_to_save": ["lm_head"]}),
    ("embedding of tied", QWEN, BF16, None, {"r": 4, "target_modules": ["q_proj"], "modules_to_save": ["embed_tokens"]}),
    ("both of tied", QWEN, F16, None, {"r": 4, "target_modules": ["q_proj"], "modules_to_save": ["embed_tokens", "lm_head"]}),
    ("both of tied, still tied", QWEN, BF16, None, {"r": 4, "target_modules": ["q_proj"], "modules_to_save": ["embed_tokens"], "ensure_weight_tying": True}),
    ("high rank", LLAMA, BF16, BF16, {"r": 128, "lora_alpha": 7, "target_modules": ALL}),
]


def run(tpx, *words):
    done = subprocess.run([tpx, *map(str, words)], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"tpx {' '.join(map(str, words))}: {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def make(folder, base, settings, config, dtype):
    """Makes a model in `base`, unless it exists, and an adapter with random values beside it."""
    from peft import LoraConfig, get_peft_model

    torch.manual_seed(5)
    if config is not None:
        AutoModelForCausalLM.from_config(config, dtype=dtype).save_pretrained(base)
    model = get_peft_model(AutoModelForCausalLM.from_pretrained(base, dtype=dtype), LoraConfig(**settings))
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.requires_grad:
                parameter.add_(torch.randn_like(parameter) * 0.1)
    model.save_pretrained(folder / "adapter")


def merged(folder, base):
    """The tensors that PEFT computes by merging the adapter in `folder` into `base`."""
    from peft import PeftModel

    model = AutoModelForCausalLM.from_pretrained(base, dtype="auto")
    model = PeftModel.from_pretrained(model, folder / "adapter").merge_and_unload()
    model.save_pretrained(folder / "expected")
    return load_file(folder / "expected" / "model.safetensors")


def differences(found, expected):
    if sorted(found) != sorted(expected):
        return [f"names {sorted(set(found) ^ set(expected))[:5]}"]
    return [f"{name}: {int((found[name] != expected[name]).sum())} of {expected[name].numel()} elements"
            for name in expected if found[name].dtype != expected[name].dtype or not torch.equal(found[name], expected[name])]


def check(tpx, folder, dtype):
    """The differences between the merged bits of tpx and those of PEFT, for one file and by way of two ranks. `dtype` is that
    of the adapter's factors; None: the dtype in which PEFT saves them."""
    base, adapter, out, split, back = (folder / name for name in ("base", "adapter", "out", "split", "back"))
    file = adapter / "adapter_model.safetensors"
    if dtype is not None:
        save_file({key: tensor.to(dtype) if "lora_" in key else tensor for key, tensor in load_file(file).items()}, file)
    expected = merged(folder, base)
    run(tpx, "reshard", base, out, "--to", "tp=1", "--merge-adapter", adapter, "--quiet")
    run(tpx, "reshard", base, split, "--to", "tp=2", "--merge-adapter", adapter, "--quiet")
    run(tpx, "reshard", split, back, "--to", "tp=1", "--quiet")
    return [text for result in (out, back) for text in differences(load_file(result / "model.safetensors"), expected)]


def stored(folder):
    """The tensors of a torch_dist checkpoint."""
    from torch.distributed.checkpoint import FileSystemReader, load

    reader = FileSystemReader(next(Path(folder).rglob(".metadata")).parent)
    found = {name: torch.empty(info.size, dtype=info.properties.dtype)
             for name, info in reader.read_metadata().state_dict_metadata.items() if hasattr(info, "size")}
    load(found, storage_reader=reader, no_dist=True)
    return found


BRIDGE = {"q_proj": "self_attention.linear_qkv.adapter.adapter_q", "k_proj": "self_attention.linear_qkv.adapter.adapter_k",
          "v_proj": "self_attention.linear_qkv.adapter.adapter_v", "o_proj": "self_attention.linear_proj.adapter",
          "gate_proj": "mlp.linear_fc1.adapter.adapter_gate", "up_proj": "mlp.linear_fc1.adapter.adapter_up", "down_proj": "mlp.linear_fc2.adapter"}  # fmt: skip


def to_bridge_and_back(tpx, folder):
    """Faults of an adapter of PEFT under the names of CanonicalLoRA, split over ranks, and of the same as PEFT's again."""
    base, adapter, there, other, back = (folder / name for name in ("base", "adapter", "there", "other", "back"))
    make(folder, base, {"r": 8, "lora_alpha": 16, "target_modules": ALL}, LLAMA, BF16)
    given = ["--config", base / "config.json", "--quiet"]
    run(tpx, "reshard", adapter, there, "--to", "tp=2,pp=2", "--format", "torch_dist", *given)
    was, found = load_file(adapter / "adapter_model.safetensors"), stored(there)
    expected = {}
    for module, name in BRIDGE.items():
        for letter, side in (("A", "linear_in"), ("B", "linear_out")):
            layers = [value for key, value in sorted(was.items()) if key.endswith(f".{module}.lora_{letter}.weight")]
            expected[f"decoder.layers.{name}.{side}.weight"] = torch.stack(layers)
    faults = differences(found, expected)
    run(tpx, "reshard", there, other, "--to", "tp=4", "--quiet")
    faults += differences(stored(other), expected)
    run(tpx, "reshard", other, back, "--to", "tp=1", "--format", "safetensors", "--quiet")
    faults += differences(load_file(back / "adapter_model.safetensors"), was)
    if (back / "adapter_config.json").read_bytes() != (adapter / "adapter_config.json").read_bytes():
        faults.append("adapter_config.json is not what it was")
    return faults + ([f"unexpected {path.name}" for path in back.iterdir() if path.name in ("config.json", "model.safetensors")])


def of_bridge(tpx, folder, rank=8, alpha=24):
    """Faults of loading an adapter of Bridge's LoRA in PEFT: all weights of a fused layer share one A."""
    from peft import PeftModel
    from torch.distributed.checkpoint import FileSystemWriter, save

    torch.manual_seed(3)
    LLAMA.save_pretrained(folder / "base")
    model = AutoModelForCausalLM.from_config(LLAMA, dtype=F32)
    model.save_pretrained(folder / "base")
    hidden, wide, heads, groups, layers = LLAMA.hidden_size, LLAMA.intermediate_size, LLAMA.num_attention_heads, LLAMA.num_key_value_heads, LLAMA.num_hidden_layers
    head = hidden // heads
    shapes = {"self_attention.linear_qkv": ((heads + 2 * groups) * head, hidden), "self_attention.linear_proj": (hidden, hidden),
              "mlp.linear_fc1": (2 * wide, hidden), "mlp.linear_fc2": (hidden, wide)}  # fmt: skip
    tensors = {}
    for name, (out, into) in shapes.items():
        tensors[f"decoder.layers.{name}.adapter.linear_in.weight"] = torch.randn(layers, rank, into)
        tensors[f"decoder.layers.{name}.adapter.linear_out.weight"] = torch.randn(layers, out, rank)
    there = folder / "bridge/iter_0000001"
    there.mkdir(parents=True)
    save(tensors, storage_writer=FileSystemWriter(there), no_dist=True)
    torch.save({"iteration": 1}, there / "common.pt")
    (there / "metadata.json").write_text('{"sharded_backend": "torch_dist", "sharded_backend_version": 1, "common_backend": "torch", "common_backend_version": 1}')
    (there / "run_config.yaml").write_text(f"model:\n  alpha: 1\npeft:\n  _target_: megatron.bridge.peft.lora.LoRA\n  dim: {rank}\n  alpha: {alpha}\ntrain:\n  alpha: 2\n")
    (folder / "bridge/latest_checkpointed_iteration.txt").write_text("1")
    run(tpx, "reshard", folder / "bridge", folder / "split", "--to", "tp=2,pp=2", "--config", folder / "base/config.json", "--quiet")
    faults = differences(stored(folder / "split"), tensors)
    for source, out in (("bridge", "peft"), ("split", "peft2")):
        run(tpx, "reshard", folder / source, folder / out, "--to", "tp=1", "--format", "safetensors", "--config", folder / "base/config.json", "--quiet")
        adapted = PeftModel.from_pretrained(AutoModelForCausalLM.from_pretrained(folder / "base"), folder / out)
        for layer in range(layers):
            part = adapted.base_model.model.model.layers[layer]
            delta = {name: alpha / rank * tensors[f"decoder.layers.{name}.adapter.linear_out.weight"][layer] @ tensors[f"decoder.layers.{name}.adapter.linear_in.weight"][layer] for name in shapes}
            qkv = delta["self_attention.linear_qkv"].reshape(groups, heads // groups + 2, head, hidden)
            expected = {"q_proj": qkv[:, :-2].reshape(-1, hidden), "k_proj": qkv[:, -2].reshape(-1, hidden), "v_proj": qkv[:, -1].reshape(-1, hidden),
                        "o_proj": delta["self_attention.linear_proj"], "gate_proj": delta["mlp.linear_fc1"][:wide], "up_proj": delta["mlp.linear_fc1"][wide:],
                        "down_proj": delta["mlp.linear_fc2"]}  # fmt: skip
            for name, value in expected.items():
                module = getattr(part.self_attn if name in ALL[:4] else part.mlp, name)
                if not torch.allclose(module.get_delta_weight("default"), value, rtol=1e-4, atol=1e-4):
                    faults.append(f"{out}: another change of layer {layer}, {name}")
    return faults


def main(tpx):
    try:
        import peft  # noqa: F401
    except ImportError:
        print("skipped: peft is not installed; scripts/interop-venv.sh installs it")
        return 77
    failures = []
    for name, config, dtype, factors, settings in CASES:
        with tempfile.TemporaryDirectory() as folder:
            folder = Path(folder)
            make(folder, folder / "base", settings, config, dtype)
            failures += [f"{name}: {text}" for text in check(tpx, folder, factors)]
    # An adapter of a quantized base is merged into what the base dequantizes to.
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        make(folder, DATA / "quantized/fp8-block-bf16", CASES[0][4], None, BF16)
        expected = merged(folder, DATA / "quantized/fp8-block-bf16")
        out = folder / "out"
        run(tpx, "reshard", DATA / "quantized/fp8-block", out, "--to", "tp=1", "--merge-adapter", folder / "adapter", "--quiet")
        found = {}
        for file in out.glob("*.safetensors"):
            found |= load_file(file)
        failures += [f"fp8: {text}" for text in differences(found, expected)]
    for name, check_names in (("to Megatron Bridge and back", to_bridge_and_back), ("of Megatron Bridge", of_bridge)):
        with tempfile.TemporaryDirectory() as folder:
            failures += [f"{name}: {text}" for text in check_names(tpx, Path(folder))]
    print("\n".join(failures) or "merged and converted as PEFT and Megatron Bridge do")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
