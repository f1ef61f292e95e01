# SPDX-License-Identifier: Apache-2.0
"""Quantized weights: tpx dequantizes to the same bits as transformers and compressed-tensors, for all codes and scales;
transformers loads tpx's conversions of testdata/quantized; GGUF types equal those of the gguf package, if it is
installed. FP8 that tpx writes has the codes and scales that transformers computes, or those of torch. Codes and scales that are split
across ranks are restored unchanged, and dequantize to the parts of the weights."""
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM
from transformers import FineGrainedFP8Config, GptOssConfig, LlamaConfig, Qwen3MoeConfig
from transformers.integrations.finegrained_fp8 import Fp8Dequantize, Fp8Quantize
from transformers.integrations.mxfp4 import convert_moe_packed_tensors

DATA = Path(__file__).resolve().parents[2] / "testdata" / "quantized"
REAL = {"bf16": torch.bfloat16, "f16": torch.float16, "f32": torch.float32}


def run(tpx, *words):
    done = subprocess.run([tpx, *map(str, words)], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"tpx {' '.join(map(str, words))}: {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def same(a, b):
    """Whether bits are equal; all NaNs are equal."""
    if a.dtype != b.dtype or a.shape != b.shape:
        return False
    kind = torch.int32 if a.element_size() == 4 else torch.int16
    return bool(((a.contiguous().view(kind) == b.contiguous().view(kind)) | (a.isnan() & b.isnan())).all())


def dequantized(tpx, tensors, dtype, quantization, dialect="keep"):
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder) / "source", Path(folder) / "target"
        source.mkdir()
        save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, source / "model.safetensors")
        (source / "config.json").write_text(json.dumps({"dtype": "bfloat16", "quantization_config": quantization}))
        run(tpx, "reshard", source, target, "--to", "tp=1", "--dtype", dtype, "--dialect", dialect, "--quiet")
        return load_file(next(target.glob("*.safetensors")))


def scale_bits(count):
    """Scales of all magnitudes, and those at the ends of f32."""
    torch.manual_seed(1)
    random = torch.randint(-(2**31), 2**31, (count,), dtype=torch.int64).to(torch.int32).view(torch.float32)
    ends = torch.tensor([0.0, 1.0, 1e-45, 3.4e38, float("inf"), float("nan")])
    random[:6] = ends[:count]
    return random


def fp8_codes(tpx, failures):
    """Every code of both types with many scales, in blocks, rows and whole tensors."""
    block = {"quant_method": "fp8", "weight_block_size": [2, 256]}
    for codes in (torch.float8_e4m3fn, torch.float8_e5m2):
        weight = torch.arange(256).to(torch.uint8).repeat(64, 2).view(codes)
        for shape, settings in (((32, 2), block), ((64, 1), {"quant_method": "fp8"}), ((1, 1), {"quant_method": "fp8"})):
            scales = [scale_bits(shape[0] * shape[1]).reshape(shape)]
            scales.append(torch.randn(shape).abs().bfloat16())
            if settings is block:
                scales.append(torch.arange(64).reshape(shape).mul(4).add(1).to(torch.uint8).view(torch.float8_e8m0fnu))
            for scale in scales:
                for name, dtype in REAL.items():
                    expected = Fp8Dequantize(None)._dequantize_one(weight, scale, output_dtype=dtype)
                    found = dequantized(tpx, {"a.weight": weight, "a.weight_scale_inv": scale}, name, settings)
                    if list(found) != ["a.weight"] or not same(found["a.weight"], expected):
                        failures.append(f"{codes} scales {scale.dtype} {shape} to {name}")


def mxfp4_codes(tpx, failures):
    """Every byte of two codes with every scale."""
    blocks = torch.arange(256, dtype=torch.uint8).reshape(1, 1, 16, 16).repeat(1, 256, 1, 1)
    scales = torch.arange(256, dtype=torch.uint8).reshape(1, 256, 1).repeat(1, 1, 16)
    for name, dtype in REAL.items():
        found = dequantized(tpx, {"w_proj_blocks": blocks, "w_proj_scales": scales}, name, {"quant_method": "mxfp4"})
        expected = convert_moe_packed_tensors(blocks.clone(), scales.clone(), dtype=dtype)
        if list(found) != ["w_proj"] or not same(found["w_proj"], expected):
            failures.append(f"mxfp4 to {name}")


def compressed(tpx, failures):
    try:
        from compressed_tensors.compressors.pack_quantized.helpers import unpack_from_int32
        from compressed_tensors.quantization.lifecycle.forward_helpers import _dequantize
    except ImportError:
        print("compressed-tensors is not installed: its dequantization is compared with testdata only")
        return
    settings = {"quant_method": "compressed-tensors"}
    codes = torch.arange(-128, 128).to(torch.int8).repeat(256, 1)
    words = torch.randint(-(2**31), 2**31, (256, 16), dtype=torch.int64).to(torch.int32)
    for scale_type in REAL.values():
        scales = scale_bits(256).nan_to_num(1.0).to(scale_type).reshape(256, 1)
        zeros = torch.arange(-128, 128).to(torch.int8).reshape(256, 1)
        for zero in (None, zeros):
            tensors = {"a.weight": codes, "a.weight_scale": scales}
            tensors |= {} if zero is None else {"a.weight_zero_point": zero}
            expected = _dequantize(codes, scales, zero)
            name = next(key for key, value in REAL.items() if value is scale_type)
            if not same(dequantized(tpx, tensors, name, settings)["a.weight"], expected):
                failures.append(f"int8 scales {scale_type}, zero points {zero is not None}")
        for bits in (4, 8):
            shape = torch.tensor([256, 16 * 32 // bits])
            tensors = {"a.weight_packed": words, "a.weight_shape": shape, "a.weight_scale": scales}
            expected = _dequantize(unpack_from_int32(words, bits, shape), scales)
            if not same(dequantized(tpx, tensors, name, settings)["a.weight"], expected):
                failures.append(f"packed int{bits} scales {scale_type}")
    fp4(tpx, failures)


def fp4(tpx, failures):
    """NVFP4 of compressed-tensors and ModelOpt with all scales, MXFP4 of compressed-tensors with all finite scales."""
    from compressed_tensors.compressors.mx_utils import decompress_mx_scale
    from compressed_tensors.compressors.nvfp4.helpers import unpack_fp4_from_uint8
    from compressed_tensors.quantization.lifecycle.forward_helpers import _dequantize

    codes = torch.randint(0, 256, (256, 32), dtype=torch.int64).to(torch.uint8)
    values = unpack_fp4_from_uint8(codes, 256, 64)
    every = torch.arange(256).to(torch.uint8)
    scales = every.repeat_interleave(4).reshape(256, 4).view(torch.float8_e4m3fn)
    blocks = values.reshape(256, 4, 16)
    for whole in (1.0, 3.0, 0.0137, 2688.0, 1e-30):
        whole = torch.tensor([whole])
        tensors = {"a.weight_packed": codes, "a.weight_scale": scales, "a.weight_global_scale": whole, "a.input_global_scale": whole.clone()}
        expected = _dequantize(blocks, scales.to(torch.bfloat16).unsqueeze(-1), None, torch.bfloat16, whole).reshape(256, 64)
        found = dequantized(tpx, tensors, "bf16", {"quant_method": "compressed-tensors", "format": "nvfp4-pack-quantized"})
        if found.keys() != {"a.weight"} or not same(found["a.weight"], expected):
            failures.append(f"nvfp4 of compressed-tensors, scale {whole}")
        # nvidia-modelopt, quantization/qtensor/nvfp4_tensor.py: dequantize()
        tensors = {"a.weight": codes, "a.weight_scale": scales, "a.weight_scale_2": whole[0].clone(), "a.input_scale": whole[0].clone()}
        expected = (blocks.float() * (scales.float() * whole).unsqueeze(-1)).reshape(256, 64).bfloat16()
        found = dequantized(tpx, tensors, "bf16", {"quant_method": "modelopt", "quant_algo": "NVFP4"})
        if found.keys() != {"a.weight"} or not same(found["a.weight"], expected):
            failures.append(f"nvfp4 of ModelOpt, scale {whole}")
    scales = every.clamp(max=250).repeat_interleave(2).reshape(256, 2)
    expected = _dequantize(values.reshape(256, 2, 32), decompress_mx_scale(scales).unsqueeze(-1)).reshape(256, 64)
    found = dequantized(tpx, {"a.weight_packed": codes, "a.weight_scale": scales}, "bf16", {"quant_method": "compressed-tensors", "format": "mxfp4-pack-quantized"})
    if not same(found["a.weight"], expected.bfloat16()):
        failures.append("mxfp4 of compressed-tensors")


def ggml(tpx, failures):
    """Random blocks of every type with values, compared with the gguf package."""
    try:
        import gguf
        import numpy
    except ImportError:
        print("gguf is not installed: its types are not compared")
        return
    names = "Q4_0 Q4_1 Q5_0 Q5_1 Q8_0 Q2_K Q3_K Q4_K Q5_K Q6_K IQ4_NL IQ4_XS TQ1_0 TQ2_0 MXFP4".split()
    random = numpy.random.default_rng(3)
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder) / "all.gguf", Path(folder) / "target"
        writer = gguf.GGUFWriter(source, "llama")
        expected = {}
        for name in names:
            kind = gguf.GGMLQuantizationType[name]
            data = random.integers(0, 256, (7, 3 * gguf.GGML_QUANT_SIZES[kind][1]), dtype=numpy.uint8)
            writer.add_tensor(f"{name}.weight", data, raw_dtype=kind)
            with numpy.errstate(all="ignore"):
                values = gguf.quants.dequantize(data, kind).astype(numpy.float32)
            expected[f"{name}.weight"] = torch.from_numpy(values.copy())
        for step in ("header", "kv_data", "tensors"):
            getattr(writer, f"write_{step}_to_file")()
        writer.close()
        run(tpx, "reshard", source, target, "--to", "fsdp=2", "--format", "safetensors", "--quiet")
        found = {}
        run(tpx, "reshard", target, Path(folder) / "one", "--to", "tp=1", "--quiet")
        for file in (Path(folder) / "one").glob("*.safetensors"):
            found |= load_file(file)
        failures += [f"ggml {name}" for name in expected if not same(found[name], expected[name])]


def models(tpx, failures):
    """transformers loads the models that tpx dequantizes, with the weights that the frameworks' own code computes."""
    for expected in sorted(DATA.glob("*-bf16")):
        source = DATA / expected.name.removesuffix("-bf16")
        with tempfile.TemporaryDirectory() as folder:
            target = Path(folder) / "target"
            run(tpx, "reshard", source, target, "--to", "tp=1", "--dtype", "bf16", "--quiet")
            model, info = AutoModelForCausalLM.from_pretrained(target, output_loading_info=True)
            if any(info[key] for key in ("missing_keys", "unexpected_keys", "mismatched_keys")):
                failures.append(f"{source.name}: {info}")
            found, wanted = model.state_dict(), load_file(expected / "model.safetensors")
            failures += [f"{source.name}: {name}" for name in wanted if not same(found[name], wanted[name])]


class Fp8Blocks:
    quantization_config = FineGrainedFP8Config(weight_block_size=(128, 128))


def fp8_models():
    """A model with experts whose matrices all consist of whole blocks, and one with tied embeddings in which most do
    not."""
    torch.manual_seed(3)
    common = {"vocab_size": 256, "hidden_size": 256, "num_hidden_layers": 2, "num_attention_heads": 4, "dtype": "bfloat16"}
    experts = Qwen3MoeConfig(**common, intermediate_size=384, moe_intermediate_size=128, num_key_value_heads=2, head_dim=64,
                             num_experts=4, num_experts_per_tok=2, mlp_only_layers=[0], tie_word_embeddings=False)
    ragged = LlamaConfig(**common, intermediate_size=320, num_key_value_heads=1, head_dim=96, tie_word_embeddings=True)
    for config, kept in ((experts, ("embed", "lm_head", "mlp.gate.")), (ragged, ("embed", "q_", "k_", "v_", "mlp"))):
        model = AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16)
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.mul_(torch.exp(torch.randn_like(parameter, dtype=torch.float32) * 3).to(parameter.dtype))
        yield model, kept
        # Every finite bf16 number; the largest is so large that most others become zero. One block of zeros.
        with torch.no_grad():
            every = torch.arange(65536, dtype=torch.int32).to(torch.int16).view(torch.bfloat16).reshape(256, 256)
            weight = model.model.layers[0].self_attn.o_proj.weight
            weight[:256, :256].copy_(torch.where(every.isfinite(), every, 1))
            weight[128:256, :128] = 0
        yield model, kept


def written_fp8(tpx, failures):
    """--dtype f8e4m3:block128 gives the codes and scales that transformers computes, and transformers loads them."""
    for model, kept in fp8_models():
        with tempfile.TemporaryDirectory() as folder:
            check_written_fp8(tpx, failures, model, kept, Path(folder))


def check_written_fp8(tpx, failures, model, kept, folder):
    source, target, back = folder / "source", folder / "target", folder / "back"
    model.save_pretrained(source)
    run(tpx, "reshard", source, target, "--to", "tp=1", "--dtype", "f8e4m3:block128", "--verify", "--quiet")
    stored, found = load_file(source / "model.safetensors"), load_file(target / "model.safetensors")
    expected = {}
    for name, tensor in stored.items():
        same_as_stored = tensor.dim() < 2 or any(word in name for word in kept)
        expected |= {name: tensor} if same_as_stored else Fp8Quantize(Fp8Blocks)._quantize_one(name, tensor)
    for name in expected.keys() | found.keys():
        ours, theirs = found.get(name), expected.get(name)
        if ours is None or theirs is None or ours.dtype != theirs.dtype or ours.shape != theirs.shape:
            failures.append(f"written fp8: {name} is {ours}, expected {theirs}")
        elif not torch.equal(ours.view(torch.uint8), theirs.contiguous().view(torch.uint8)):
            failures.append(f"written fp8: {name} differs")
    loaded, info = AutoModelForCausalLM.from_pretrained(
        target, output_loading_info=True, quantization_config=FineGrainedFP8Config(dequantize=True))
    if info["missing_keys"] or info["unexpected_keys"] or info["mismatched_keys"]:
        failures.append(f"written fp8: transformers loads it with {info}")
    run(tpx, "reshard", target, back, "--to", "tp=1", "--dtype", "bf16", "--quiet")
    theirs, ours = loaded.state_dict(), AutoModelForCausalLM.from_pretrained(back).state_dict()
    if theirs.keys() != ours.keys():
        failures.append(f"written fp8: {theirs.keys() ^ ours.keys()} are not in both")
    failures += [f"written fp8: transformers dequantizes {name} otherwise" for name in ours
                 if not same(theirs[name].bfloat16(), ours[name].bfloat16())]


def shards(folder):
    """For each rank of a folder split by rank: the tensors of its file, and their offsets in the whole tensors."""
    for path in sorted(folder.glob("*.safetensors")):
        with safe_open(path, "pt") as file:
            places = json.loads(file.metadata()["DCP_SHARDING_INFO"])
            yield {name: (file.get_tensor(name), places[name]["saved_offsets"]) for name in file.keys()}


def split_models():
    """Models whose blocks align with tensor, pipeline and expert parallelism: FP8 in blocks of 128, and MXFP4 of gpt-oss."""
    torch.manual_seed(5)
    config = Qwen3MoeConfig(vocab_size=256, hidden_size=256, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=4, head_dim=64, intermediate_size=512,
                            moe_intermediate_size=256, num_experts=4, num_experts_per_tok=2, mlp_only_layers=[0], tie_word_embeddings=False, dtype="bfloat16")
    yield "fp8", AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16), ("tp=2", "tp=2,pp=2", "tp=2,dp=2,ep=2,etp=1", "ep=4,dp=4")
    config = GptOssConfig(vocab_size=64, hidden_size=64, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, head_dim=16, intermediate_size=128,
                          num_local_experts=4, num_experts_per_tok=2, dtype="bfloat16")
    yield "mxfp4", AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16), ("tp=2", "tp=4", "tp=2,pp=2,dp=2,ep=2", "ep=4,dp=4")


def write_split_model(tpx, scheme, model, source, plain):
    if scheme == "fp8":
        model.save_pretrained(plain)
        run(tpx, "reshard", plain, source, "--to", "tp=1", "--dtype", "f8e4m3:block128", "--quiet")
        return
    model.save_pretrained(source)
    tensors = load_file(source / "model.safetensors")
    for name in [name for name in tensors if name.endswith("_proj") and "experts" in name]:
        experts, columns, rows = tensors.pop(name).shape
        tensors[f"{name}_blocks"] = torch.randint(0, 256, (experts, rows, columns // 32, 16)).to(torch.uint8)
        tensors[f"{name}_scales"] = torch.randint(110, 130, (experts, rows, columns // 32)).to(torch.uint8)
    save_file(tensors, source / "model.safetensors", {"format": "pt"})
    settings = json.loads((source / "config.json").read_text())
    settings["quantization_config"] = {"quant_method": "mxfp4", "modules_to_not_convert": ["model.layers.*.self_attn", "lm_head"]}
    (source / "config.json").write_text(json.dumps(settings))


def dequantized_shards(split):
    """The weights of all codes and of the scales that begin where they do, by the framework's own code: name, begin, values."""
    pieces = [(name, tensor, begin) for rank in shards(split) for name, (tensor, begin) in rank.items()]
    scales = {(name, tuple(begin)): tensor for name, tensor, begin in pieces}
    for name, tensor, begin in pieces:
        if tensor.dtype == torch.float8_e4m3fn:
            scale = scales[name + "_scale_inv", tuple(b // 128 for b in begin)]
            yield name, begin, Fp8Dequantize(None)._dequantize_one(tensor, scale, output_dtype=torch.bfloat16)
        elif name.endswith("_blocks"):
            scale = scales[name.replace("_blocks", "_scales"), tuple(begin[:3])]
            values = convert_moe_packed_tensors(tensor.clone(), scale.clone(), dtype=torch.bfloat16)
            yield name.removesuffix("_blocks"), [begin[0], begin[2] * 32, begin[1]], values


def split_codes(tpx, failures):
    """Codes and scales that are split across ranks are restored unchanged, and dequantize to the parts of the whole
    weights."""
    for scheme, model, layouts in split_models():
        with tempfile.TemporaryDirectory() as folder:
            source, plain, values = (Path(folder) / name for name in ("source", "plain", "values"))
            write_split_model(tpx, scheme, model, source, plain)
            run(tpx, "reshard", source, values, "--to", "tp=1", "--dtype", "bf16", "--quiet")
            whole, stored = load_file(values / "model.safetensors"), load_file(source / "model.safetensors")
            for number, layout in enumerate(layouts):
                check_split_codes(tpx, failures, f"{scheme} {layout}", layout, source, stored, whole, Path(folder) / str(number))


def check_split_codes(tpx, failures, case, layout, source, stored, whole, folder):
    folder.mkdir()
    split, back, dcp = folder / "split", folder / "back", folder / "dcp"
    run(tpx, "reshard", source, split, "--to", layout, "--quiet")
    run(tpx, "reshard", split, back, "--to", "tp=1", "--quiet")
    run(tpx, "reshard", source, dcp, "--to", layout, "--format", "dcp", "--dialect", "keep", "--quiet")
    run(tpx, "verify", source, dcp)
    run(tpx, "reshard", split, folder / "values", "--to", "tp=1", "--dtype", "bf16", "--quiet")
    computed = load_file(folder / "values" / "model.safetensors")
    failures += [f"{case}: split codes of {name} have other values" for name in whole if not same(computed[name], whole[name])]
    found = load_file(back / "model.safetensors")
    if found.keys() != stored.keys() or not all(torch.equal(found[name].view(torch.uint8), stored[name].view(torch.uint8)) for name in stored):
        failures.append(f"{case}: codes or scales are not what they were")
    if (back / "config.json").read_bytes() != (source / "config.json").read_bytes():
        failures.append(f"{case}: config.json is not what it was")
    elements, smaller = 0, 0
    for name, begin, values in dequantized_shards(split):
        part = whole[name][tuple(slice(b, b + size) for b, size in zip(begin, values.shape))]
        elements += values.numel()
        smaller += values.numel() < whole[name].numel()
        if not same(values, part.contiguous()):
            failures.append(f"{case}: {name} of a rank is not a part of the whole weight")
    quantized = [name for name in whole if name + "_scale_inv" in stored or name + "_scales" in stored]
    if not quantized or elements != sum(whole[name].numel() for name in quantized):
        failures.append(f"{case}: ranks store codes of {elements} elements, some of them twice or not at all")
    if smaller == 0 and ("tp=" in layout or "mxfp4" in case):  # FP8 has a tensor for each expert
        failures.append(f"{case}: no codes are split")


def random_words(*shape):
    return torch.randint(-(2**31), 2**31, shape, dtype=torch.int64).to(torch.int32)


def packed_schemes(columns, rows):
    """The tensors and the quantization_config of a random weight [rows, columns] in each scheme, with groups of 32 or 16."""
    settings = {"quant_method": "compressed-tensors"}
    scales, whole, group = torch.rand(rows, columns // 32).bfloat16(), torch.tensor([3.5]), torch.arange(columns, dtype=torch.int32) // 32
    fp4 = torch.randint(0, 256, (rows, columns // 2)).to(torch.uint8)
    fp8 = torch.rand(rows, columns // 16).to(torch.float8_e4m3fn)
    words = {"qzeros": random_words(columns // 32, rows // 8), "scales": torch.rand(columns // 32, rows).half()}
    gptq = {"quant_method": "gptq", "bits": 4, "group_size": 32, "sym": False}
    yield "nvfp4", {"weight_packed": fp4, "weight_scale": fp8, "weight_global_scale": whole}, {**settings, "format": "nvfp4-pack-quantized"}
    yield "nvfp4 of ModelOpt", {"weight": fp4, "weight_scale": fp8, "weight_scale_2": whole[0], "input_scale": whole[0]}, {"quant_method": "modelopt", "quant_algo": "NVFP4"}
    yield "int8", {"weight": torch.randint(-128, 128, (rows, columns)).to(torch.int8), "weight_scale": scales[:, :1].contiguous()}, settings
    yield "int4", {"weight_packed": random_words(rows, columns // 8), "weight_shape": torch.tensor([rows, columns]), "weight_scale": scales}, settings
    yield "awq", {"qweight": random_words(columns, rows // 8), **words}, {"quant_method": "awq", "bits": 4, "group_size": 32, "version": "gemm", "zero_point": True}
    yield "gptq", {"qweight": random_words(columns // 8, rows), **words}, gptq
    yield "gptq, groups in order", {"qweight": random_words(columns // 8, rows), **words, "g_idx": group}, gptq
    yield "gptq, groups in another order", {"qweight": random_words(columns // 8, rows), **words, "g_idx": group[torch.randperm(columns)]}, {**gptq, "desc_act": True}


def packed_models():
    """A Llama in each scheme of packed_schemes()."""
    torch.manual_seed(6)
    config = LlamaConfig(vocab_size=64, hidden_size=256, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=4, intermediate_size=256, dtype="bfloat16")
    model = AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16)
    for number, (scheme, _, settings) in enumerate(packed_schemes(256, 256)):
        tensors = {}
        for name, tensor in model.state_dict().items():
            if "_proj" not in name:
                tensors[name] = tensor
                continue
            parts = list(packed_schemes(*reversed(tensor.shape)))[number][1]
            tensors |= {name.removesuffix("weight") + part: value.clone() for part, value in parts.items()}
        yield scheme, tensors, config.to_dict() | {"architectures": ["LlamaForCausalLM"], "quantization_config": settings}


def split_packed(tpx, failures):
    """The same of codes in words and half bytes: what is split and joined again is what it was, in all bytes. Values that are computed
    of split codes are those of the whole ones. Numbered groups are not split; these weights are dequantized to the same values."""
    for scheme, tensors, config in packed_models():
        with tempfile.TemporaryDirectory() as folder:
            source, values = Path(folder) / "source", Path(folder) / "values"
            source.mkdir()
            save_file(tensors, source / "model.safetensors", {"format": "pt"})
            (source / "config.json").write_text(json.dumps(config))
            run(tpx, "reshard", source, values, "--to", "tp=1", "--dtype", "bf16", "--quiet")
            whole = load_file(values / "model.safetensors")
            for number, layout in enumerate(("tp=2", "tp=4,pp=2", "fsdp=2")):
                is_kept = layout == "fsdp=2" or "groups" not in scheme
                check_split_packed(tpx, failures, f"{scheme} {layout}", layout, source, tensors if is_kept else None, whole, Path(folder) / str(number))


def check_split_packed(tpx, failures, case, layout, source, stored, whole, folder):
    folder.mkdir()
    split, back, values, other = (folder / name for name in ("split", "back", "values", "other"))
    run(tpx, "reshard", source, split, "--to", layout, "--quiet")
    run(tpx, "reshard", split, back, "--to", "tp=1", "--quiet")
    found = load_file(back / "model.safetensors")
    if stored is not None and (found.keys() != stored.keys() or not all(torch.equal(found[name].reshape(-1).view(torch.uint8), stored[name].reshape(-1).view(torch.uint8)) for name in stored)):
        failures.append(f"{case}: codes or scales are not what they were")
    if layout == "fsdp=2" and "another order" in case:
        return  # only whole weights have values
    run(tpx, "verify", source, split)
    for target, to in ((values, "tp=1"), (other, "tp=2")):
        run(tpx, "reshard", split, target, "--to", to, "--dtype", "bf16", "--quiet")
    run(tpx, "verify", "--weights-only", values, other)
    found = load_file(values / "model.safetensors")
    if found.keys() != whole.keys():
        failures.append(f"{case}: {sorted(found.keys() ^ whole.keys())[:3]} are not in both")
    failures += [f"{case}: split codes of {name} have other values" for name in found.keys() & whole.keys() if not same(found[name], whole[name])]


def cast_plain(tpx, tensor, dtype):
    """What --dtype makes of a tensor, or the error."""
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder) / "w.safetensors", Path(folder) / "out"
        save_file({"w": tensor.contiguous()}, source)
        words = [tpx, "reshard", str(source), str(target), "--to", "tp=1", "--dtype", f"{dtype}:unscaled", "--quiet"]
        done = subprocess.run(words, capture_output=True, text=True)
        return load_file(next(target.glob("*.safetensors")))["w"] if done.returncode == 0 else done.stderr


def check_plain(tpx, failures, tensor, dtype, expected):
    found = cast_plain(tpx, tensor, dtype)
    if not isinstance(found, torch.Tensor) or found.dtype != expected.dtype or not same(found.float(), expected.float()):
        failures.append(f"plain fp8: {tensor.dtype} to {dtype}: {found}")


def plain_fp8(tpx, failures):
    """Casts to FP8 without scales are those of torch for all values that fit, and others are errors; all codes return."""
    torch.manual_seed(2)
    codes = torch.arange(256).to(torch.uint8)
    bits = torch.randint(-(2**31), 2**31, (1 << 18,), dtype=torch.int64).to(torch.int32)
    small = torch.randn(1 << 18) * torch.exp2(torch.randint(-20, 8, (1 << 18,)))
    halves = torch.arange(-(2**15), 2**15).to(torch.int16)
    for fp8, name, most in ((torch.float8_e4m3fn, "f8e4m3", 464.0), (torch.float8_e5m2, "float8_e5m2", 61439.0)):
        infinite = torch.full((2,), float("inf")) if fp8 == torch.float8_e5m2 else torch.ones(2)
        for values in (bits.view(torch.float32), small, halves.view(torch.float16), halves.view(torch.bfloat16)):
            values = torch.cat([values[(values.float().abs() <= most) | values.isnan()], infinite.to(values.dtype)])
            check_plain(tpx, failures, values, name, values.to(fp8))
        for wide, dtype in REAL.items():
            check_plain(tpx, failures, codes.view(fp8), wide, codes.view(fp8).to(dtype))
        for value, text in ((-65536.0, "-65536"), (float("inf"), "inf")):
            found = cast_plain(tpx, torch.tensor([[1.0, value]]), name)
            fits = fp8 == torch.float8_e5m2 and text == "inf"
            if fits != isinstance(found, torch.Tensor) or not (fits or f"tensor 'w': {text} at [0, 1] does not fit" in found):
                failures.append(f"plain fp8: {value} became {found}")


def main(tpx):
    failures = []
    for check in (fp8_codes, mxfp4_codes, compressed, ggml, models, written_fp8, plain_fp8, split_codes, split_packed):
        check(tpx, failures)
    print("\n".join(failures) or "dequantized and quantized as the frameworks do")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
