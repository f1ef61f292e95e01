# SPDX-License-Identifier: Apache-2.0
"""Adapters: tpx merges LoRA and DoRA adapters to the same bits as PEFT's merge_and_unload() on a CPU, for models of
transformers in three dtypes and for a quantized model. Merging for two ranks gives the same bits."""
import os
import subprocess
import sys
import tempfile
from pathlib import Path

# PyTorch computes DoRA's norms with as many partial sums as a vector has elements; tpx always sums as with AVX2.
os.environ["ATEN_CPU_CAPABILITY"] = "avx2"

import torch  # noqa: E402
from safetensors.torch import load_file, save_file  # noqa: E402
from transformers import AutoModelForCausalLM, GPT2Config, LlamaConfig, Qwen2Config  # noqa: E402

DATA = Path(__file__).resolve().parents[2] / "testdata"
LLAMA = LlamaConfig(hidden_size=128, intermediate_size=224, num_hidden_layers=2, num_attention_heads=8,
                    num_key_value_heads=4, vocab_size=96, tie_word_embeddings=False)
QWEN = Qwen2Config(hidden_size=64, intermediate_size=96, num_hidden_layers=2, num_attention_heads=4,
                   num_key_value_heads=2, vocab_size=96, tie_word_embeddings=True, use_sliding_window=False)
GPT2 = GPT2Config(n_embd=64, n_layer=2, n_head=4, vocab_size=96, n_positions=32)
ALL = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
PATTERNS = {"rank_pattern": {"layers.1.self_attn.q_proj": 16, "^model.layers.0.mlp.up_proj": 4},
            "alpha_pattern": {"down_proj": 5, r"layers\.\d+\.self_attn.k_proj": 3}}
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


def check(tpx, folder, stored):
    """The differences between the merged bits of tpx and those of PEFT, for one file and by way of two ranks. `stored` is the
    dtype of the adapter's factors; None: the dtype in which PEFT saves them."""
    base, adapter, out, split, back = (folder / name for name in ("base", "adapter", "out", "split", "back"))
    file = adapter / "adapter_model.safetensors"
    if stored is not None:
        save_file({key: tensor.to(stored) if "lora_" in key else tensor for key, tensor in load_file(file).items()}, file)
    expected = merged(folder, base)
    run(tpx, "reshard", base, out, "--to", "tp=1", "--merge-adapter", adapter, "--quiet")
    run(tpx, "reshard", base, split, "--to", "tp=2", "--merge-adapter", adapter, "--quiet")
    run(tpx, "reshard", split, back, "--to", "tp=1", "--quiet")
    return [text for result in (out, back) for text in differences(load_file(result / "model.safetensors"), expected)]


def main(tpx):
    try:
        import peft  # noqa: F401
    except ImportError:
        print("skipped: peft is not installed; scripts/interop-venv.sh installs it")
        return 77
    failures = []
    for name, config, dtype, stored, settings in CASES:
        with tempfile.TemporaryDirectory() as folder:
            folder = Path(folder)
            make(folder, folder / "base", settings, config, dtype)
            failures += [f"{name}: {text}" for text in check(tpx, folder, stored)]
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
    print("\n".join(failures) or "merged as PEFT does")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
