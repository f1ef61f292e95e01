# SPDX-License-Identifier: Apache-2.0
"""quantized.py FOLDER: tiny models with quantized weights, in FOLDER/quantized/SCHEME, and what they dequantize to by the
frameworks' own code, in FOLDER/quantized/SCHEME-bf16 or SCHEME-f16. Needs torch, safetensors, transformers,
compressed-tensors, and autoawq's awq/utils/packing_utils.py, whose path is in AWQ_PACKING."""

import importlib.util
import json
import os
import sys

import torch
from compressed_tensors.compressors.pack_quantized.helpers import pack_to_int32
from compressed_tensors.entrypoints.convert.converters.fp8block_dequantizer import FP8BlockDequantizer
from compressed_tensors.quantization.lifecycle.forward_helpers import _dequantize
from safetensors.torch import save_file
from transformers import AutoModelForCausalLM, GptOssConfig, LlamaConfig
from transformers import FineGrainedFP8Config
from transformers.integrations.finegrained_fp8 import Fp8Quantize
from transformers.integrations.mxfp4 import convert_moe_packed_tensors

BLOCK = 32
E4M3_MAX = 448.0


def model(config):
    torch.manual_seed(7)
    dtype = torch.float16 if config.dtype == torch.float16 else torch.bfloat16
    return {name: tensor.contiguous() for name, tensor in
            AutoModelForCausalLM.from_config(config, dtype=dtype).state_dict().items()}


def llama():
    # 80 and 48 are not multiples of the block, as 576 of DeepSeek-V3 is not one of 128.
    return LlamaConfig(hidden_size=48, intermediate_size=80, num_hidden_layers=2, num_attention_heads=4,
                       num_key_value_heads=2, vocab_size=32, tie_word_embeddings=False, dtype="bfloat16")


def small_llama():
    return LlamaConfig(hidden_size=32, intermediate_size=48, num_hidden_layers=1, num_attention_heads=4,
                       num_key_value_heads=2, vocab_size=16, tie_word_embeddings=False, dtype="float16")


def wide_llama():
    # Codes of 3 bits fill words for 32 rows, or 32 columns, together.
    return LlamaConfig(hidden_size=64, intermediate_size=96, num_hidden_layers=1, num_attention_heads=4,
                       num_key_value_heads=2, vocab_size=16, tie_word_embeddings=False, dtype="float16")


def gpt_oss():
    return GptOssConfig(hidden_size=32, intermediate_size=32, num_hidden_layers=2, num_attention_heads=4,
                        num_key_value_heads=2, head_dim=8, num_local_experts=2, num_experts_per_tok=1, vocab_size=16,
                        tie_word_embeddings=False, dtype="bfloat16",
                        layer_types=["sliding_attention", "full_attention"])


def save(folder, config, tensors, quantization=None):
    os.makedirs(folder, exist_ok=True)
    tensors = {name: tensor.contiguous() for name, tensor in tensors.items()}
    save_file(tensors, os.path.join(folder, "model.safetensors"), metadata={"format": "pt"})
    text = config.to_diff_dict() | {"dtype": "float16" if config.dtype == torch.float16 else "bfloat16"}
    text["architectures"] = {"llama": ["LlamaForCausalLM"], "gpt_oss": ["GptOssForCausalLM"]}[text["model_type"]]
    if quantization:
        text["quantization_config"] = quantization
    with open(os.path.join(folder, "config.json"), "w") as file:
        json.dump(text, file, indent=2, sort_keys=True)
        file.write("\n")


def is_linear(name, tensor):
    return name.endswith("_proj.weight") and tensor.ndim == 2


def to_fp8(weight, rows, columns):
    """FP8 codes and the scales of blocks of `rows` x `columns`."""
    high, wide = -(-weight.shape[0] // rows), -(-weight.shape[1] // columns)
    padded = torch.zeros(high * rows, wide * columns)
    padded[:weight.shape[0], :weight.shape[1]] = weight.float()
    blocks = padded.reshape(high, rows, wide, columns)
    scales = blocks.abs().amax(dim=(1, 3)) / E4M3_MAX
    codes = (blocks / scales[:, None, :, None]).reshape(padded.shape)[:weight.shape[0], :weight.shape[1]]
    return codes.to(torch.float8_e4m3fn).contiguous(), scales


def fp8_block(root):
    plain, tensors = model(llama()), {}
    reader = FP8BlockDequantizer(weight_block_size=[BLOCK, BLOCK], dtype=torch.bfloat16)
    for name, weight in list(plain.items()):
        if not is_linear(name, weight):
            tensors[name] = weight
            continue
        tensors[name], scales = to_fp8(weight, BLOCK, BLOCK)
        tensors[name + "_scale_inv"] = scales
        plain[name] = reader._create_dequantized_weight(tensors[name], scales)
    save(f"{root}/fp8-block", llama(), tensors,
         {"quant_method": "fp8", "fmt": "e4m3", "activation_scheme": "dynamic", "weight_block_size": [BLOCK, BLOCK]})
    save(f"{root}/fp8-block-bf16", llama(), plain)


def scheme(form, kind, strategy, bits, size=None):
    weights = {"num_bits": bits, "type": kind, "strategy": strategy, "symmetric": True, "group_size": size}
    return {"quant_method": "compressed-tensors", "format": form,
            "config_groups": {"group_0": {"targets": ["Linear"], "weights": weights}}}


def per_row(root):
    """FP8 of compressed-tensors: bf16 scales of rows, one of the whole tensor for down_proj."""
    plain, tensors = model(llama()), {}
    for name, weight in list(plain.items()):
        tensors[name] = weight
        if not is_linear(name, weight):
            continue
        whole = "down_proj" in name
        codes, scales = to_fp8(weight, weight.shape[0] if whole else 1, weight.shape[1])
        scales = (scales.reshape(1) if whole else scales).bfloat16()
        tensors |= {name: codes, name + "_scale": scales, name.replace("weight", "input_scale"): torch.ones(1)}
        plain[name] = _dequantize(codes, scales)
    save(f"{root}/fp8-row", llama(), tensors, scheme("float-quantized", "float", "channel", 8))
    save(f"{root}/fp8-row-bf16", llama(), plain)


def integers(root):
    """int4 in groups of 16 packed into words, and int8 with zero points."""
    plain, tensors = model(llama()), {}
    for name, weight in list(plain.items()):
        if not is_linear(name, weight):
            tensors[name] = weight
        elif "self_attn" in name:
            scales = (weight.float().abs().amax(1, keepdim=True) / 100).bfloat16()
            zeros = torch.randint(-20, 20, scales.shape, dtype=torch.int8)
            codes = (weight / scales + zeros).round().clamp(-128, 127).to(torch.int8)
            tensors |= {name: codes, name + "_scale": scales, name + "_zero_point": zeros}
            plain[name] = _dequantize(codes, scales, zeros)
        else:
            groups = weight.reshape(weight.shape[0], -1, 16)
            scales = (groups.float().abs().amax(2) / 7).bfloat16()
            codes = (groups / scales[..., None]).round().clamp(-8, 7).to(torch.int8)
            tensors |= {name + "_packed": pack_to_int32(codes.reshape(weight.shape), 4), name + "_scale": scales,
                        name + "_shape": torch.tensor(weight.shape)}
            plain[name] = _dequantize(codes, scales[..., None]).reshape(weight.shape)
    save(f"{root}/int", llama(), tensors, scheme("pack-quantized", "int", "group", 4, 16))
    save(f"{root}/int-bf16", llama(), plain)


def mxfp4(root):
    plain, tensors = model(gpt_oss()), {}
    for name, weight in list(plain.items()):
        if not name.endswith(("experts.gate_up_proj", "experts.down_proj")):
            tensors[name] = weight
            continue
        experts, columns, rows = weight.shape
        blocks = torch.randint(0, 256, (experts, rows, columns // 32, 16), dtype=torch.uint8)
        scales = torch.randint(110, 125, blocks.shape[:-1], dtype=torch.uint8)
        tensors |= {name + "_blocks": blocks, name + "_scales": scales}
        plain[name] = convert_moe_packed_tensors(blocks, scales).contiguous()
    save(f"{root}/mxfp4", gpt_oss(), tensors,
         {"quant_method": "mxfp4", "modules_to_not_convert": ["model.layers.*.self_attn", "lm_head"]})
    save(f"{root}/mxfp4-bf16", gpt_oss(), plain)


def random_codes(weight, bits, group):
    """Codes, zeros and scales of the transposed weight: all code values, with zeros of all values but 0."""
    columns, rows = weight.shape
    codes = torch.randint(0, 1 << bits, (rows, columns), dtype=torch.int32)
    zeros = torch.randint(1, 1 << bits, (rows // group, columns), dtype=torch.int32)
    return codes, zeros, (torch.rand(rows // group, columns) / 100).half()


def to_words(codes, bits):
    """Neighbors on the last axis in words, the first in the low bits. Codes of 3 bits may be in two words."""
    ones = (codes[..., None].to(torch.int64) >> torch.arange(bits) & 1).reshape(*codes.shape[:-1], -1, 32)
    return (ones << torch.arange(32)).sum(-1).to(torch.uint32).view(torch.int32)


def gptq(root, name, bits, version):
    """The first version stores zeros less one. Rows of attention are sorted by activation."""
    config = wide_llama() if bits == 3 else small_llama()
    plain, tensors, group = model(config), {}, 16
    for key, weight in list(plain.items()):
        if not is_linear(key, weight):
            tensors[key] = weight
            continue
        codes, zeros, scales = random_codes(weight, bits, group)
        groups = torch.arange(codes.shape[0], dtype=torch.int32) // group
        if "self_attn" in key:
            groups = groups[torch.randperm(len(groups))]
        stem = key.removesuffix("weight")
        tensors |= {stem + "qweight": to_words(codes.T, bits).T, stem + "scales": scales, stem + "g_idx": groups,
                    stem + "qzeros": to_words(zeros - int(version == "gptq"), bits)}
        plain[key] = (scales[groups] * (codes - zeros[groups])).T  # as TorchQuantLinear of gptqmodel
    save(f"{root}/{name}", config, tensors,
         {"quant_method": "gptq", "bits": bits, "group_size": group, "desc_act": True, "checkpoint_format": version})
    save(f"{root}/{name}-f16", config, plain)


def awq(root):
    spec = importlib.util.spec_from_file_location("packing_utils", os.environ["AWQ_PACKING"])
    spec.loader.exec_module(packing := importlib.util.module_from_spec(spec))
    plain, tensors, group = model(small_llama()), {}, 16
    for key, weight in list(plain.items()):
        if not is_linear(key, weight):
            tensors[key] = weight
            continue
        codes, zeros, scales = random_codes(weight, 4, group)
        stem = key.removesuffix("weight")
        words, zeros = (to_words(part.reshape(len(part), -1, 8)[..., packing.AWQ_ORDER].reshape(part.shape), 4)
                        for part in (codes, zeros))
        tensors |= {stem + "qweight": words, stem + "qzeros": zeros, stem + "scales": scales}
        plain[key] = packing.dequantize_gemm(words, zeros, scales, 4, group).T
    save(f"{root}/awq", small_llama(), tensors,
         {"quant_method": "awq", "bits": 4, "group_size": group, "version": "gemm", "zero_point": True})
    save(f"{root}/awq-f16", small_llama(), plain)


class Blocks128:
    quantization_config = FineGrainedFP8Config(weight_block_size=(128, 128))


def plain(root):
    """What FP8 is written of, and what it is by transformers; keys and values are smaller than a block, and queries, which
    inference engines fuse with them, stay as they are, too."""
    config = LlamaConfig(hidden_size=128, intermediate_size=256, num_hidden_layers=1, num_attention_heads=2,
                         num_key_value_heads=1, vocab_size=16, tie_word_embeddings=False, dtype="bfloat16")
    tensors, quantized = model(config), {}
    for key, weight in tensors.items():
        kept = any(name in key for name in ("q_proj", "k_proj", "v_proj")) or not is_linear(key, weight)
        quantized |= {key: weight} if kept else Fp8Quantize(Blocks128)._quantize_one(key, weight)
    save(f"{root}/plain", config, tensors)
    names = sorted(key.removesuffix(".weight") for key, weight in tensors.items()
                   if weight.dim() == 2 and quantized[key] is weight)
    save(f"{root}/plain-fp8", config, quantized,
         {"quant_method": "fp8", "fmt": "e4m3", "activation_scheme": "dynamic", "weight_block_size": [128, 128],
          "modules_to_not_convert": names})


if __name__ == "__main__":
    folder = os.path.join(sys.argv[1], "quantized")
    for make in (fp8_block, per_row, integers, mxfp4, awq, plain):
        make(folder)
    gptq(folder, "gptq", 4, "gptq")
    gptq(folder, "gptq-v2", 8, "gptq_v2")
    gptq(folder, "gptq-2", 2, "gptq")
    gptq(folder, "gptq-3", 3, "gptq")
