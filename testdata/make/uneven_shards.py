# SPDX-License-Identifier: Apache-2.0
"""Writes Llamas of two layers in files like those of HuggingFaceStorageWriter: `one` on one rank, and on 2 ranks `padded`, `pruned` and
`packed`, whose tensors have other sizes than other tensors imply: an output layer with more rows, a layer with a smaller MLP, and codes of
bitsandbytes (nf4).

Usage: python3 testdata/make/uneven_shards.py OUT
"""
import json
import os
import struct
import sys

hidden, mlp, vocabulary = 4, 6, 6
sizes = {"BF16": 2, "F32": 4, "U8": 1}


def llama():
    tensors = {"model.embed_tokens.weight": ("BF16", [vocabulary, hidden]), "model.norm.weight": ("BF16", [hidden])}
    for layer in range(2):
        shapes = {"input_layernorm": [hidden], "post_attention_layernorm": [hidden], "mlp.gate_proj": [mlp, hidden],
                  "mlp.up_proj": [mlp, hidden], "mlp.down_proj": [hidden, mlp]}
        shapes |= {f"self_attn.{name}_proj": [hidden, hidden] for name in "qkvo"}
        tensors |= {f"model.layers.{layer}.{name}.weight": ("BF16", shape) for name, shape in shapes.items()}
    return tensors | {"lm_head.weight": ("BF16", [vocabulary, hidden])}


def write(folder, tensors, ranks=2):
    os.makedirs(folder)
    for rank in range(ranks):
        header, info, end = {}, {}, 0
        for name, (dtype, shape) in tensors.items():
            part = -(-shape[0] // ranks)
            begin, stop = rank * part, min((rank + 1) * part, shape[0])
            if begin >= stop:
                continue
            own = [stop - begin, *shape[1:]]
            size = sizes[dtype]
            for length in own:
                size *= length
            header[name] = {"dtype": dtype, "shape": own, "data_offsets": [end, end + size]}
            info[name] = {"saved_offsets": [begin] + [0] * (len(shape) - 1)}
            end += size
        header["__metadata__"] = {"format": "pt", "DCP_VERSION": "1.0", "DCP_SHARDING_INFO": json.dumps(info)}
        text = json.dumps(header, separators=(",", ":")).encode()
        text += b" " * (-len(text) % 8)
        with open(f"{folder}/shard-{rank + 1:05}-model-00001-of-00001.safetensors", "wb") as file:
            file.write(struct.pack("<Q", len(text)) + text + bytes(k % 64 for k in range(end)))


out = sys.argv[1]
write(f"{out}/one", llama(), ranks=1)
padded = llama() | {"lm_head.weight": ("BF16", [vocabulary + 2, hidden])}
write(f"{out}/padded", padded)
pruned = llama()
for name, shape in {"gate": [4, hidden], "up": [4, hidden], "down": [hidden, 4]}.items():
    pruned[f"model.layers.1.mlp.{name}_proj.weight"] = ("BF16", shape)
write(f"{out}/pruned", pruned)
packed = {}
for name, (dtype, shape) in llama().items():
    if "_proj" not in name:
        packed[name] = (dtype, shape)
        continue
    packed[name] = ("U8", [shape[0] * shape[1] // 2, 1])
    packed |= {f"{name}.absmax": ("F32", [2]), f"{name}.quant_map": ("F32", [16]),
               f"{name}.quant_state.bitsandbytes__nf4": ("U8", [80])}
write(f"{out}/packed", packed)
with open(f"{out}/packed/config.json", "w") as file:
    json.dump({"model_type": "llama", "architectures": ["LlamaForCausalLM"], "vocab_size": vocabulary, "hidden_size": hidden,
               "intermediate_size": mlp, "num_hidden_layers": 2, "num_attention_heads": 2, "num_key_value_heads": 2,
               "quantization_config": {"quant_method": "bitsandbytes", "load_in_4bit": True, "bnb_4bit_quant_type": "nf4"}}, file)
