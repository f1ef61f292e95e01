# SPDX-License-Identifier: Apache-2.0
"""mtp.py OUT: a DeepSeek-V3 of one dense layer and one for multi-token prediction, whose copies of the embedding and of
the output layer are copies (OUT/whole), are left out (OUT/bare), or differ in one element (OUT/damaged); and the one without
them beside a number that no rule of the family explains (OUT/counted)."""
import json
import random
import struct
import sys
from pathlib import Path

H, F, V, N, C, R, P, W = 4, 6, 5, 2, 3, 2, 2, 2
LAYER = {
    "input_layernorm": (H,), "post_attention_layernorm": (H,), "self_attn.q_proj": (N * (P + R), H),
    "self_attn.kv_a_proj_with_mqa": (C + R, H), "self_attn.kv_a_layernorm": (C,), "self_attn.kv_b_proj": (N * (P + W), C),
    "self_attn.o_proj": (H, N * W), "mlp.gate_proj": (F, H), "mlp.up_proj": (F, H), "mlp.down_proj": (H, F),
}  # fmt: skip
MTP = {"enorm": (H,), "hnorm": (H,), "eh_proj": (H, 2 * H), "shared_head.norm": (H,)}
CONFIG = {
    "model_type": "deepseek_v3", "architectures": ["DeepseekV3ForCausalLM"], "hidden_size": H, "intermediate_size": F,
    "vocab_size": V, "num_attention_heads": N, "num_key_value_heads": N, "num_hidden_layers": 1, "num_nextn_predict_layers": 1,
    "q_lora_rank": None, "kv_lora_rank": C, "qk_rope_head_dim": R, "qk_nope_head_dim": P, "v_head_dim": W,
    "n_routed_experts": 0, "first_k_dense_replace": 2, "tie_word_embeddings": False,
}  # fmt: skip


def write(folder, tensors):
    folder.mkdir(parents=True)
    header, at = {"__metadata__": {"format": "pt"}}, 0
    for name, (shape, data) in sorted(tensors.items()):
        header[name] = {"dtype": "F32", "shape": list(shape), "data_offsets": [at, at + len(data)]}
        at += len(data)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    data = b"".join(data for _, (_, data) in sorted(tensors.items()))
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + data)
    (folder / "config.json").write_text(json.dumps(CONFIG, indent=1) + "\n")


def main(out):
    values = random.Random(3)
    shapes = {"model.embed_tokens": (V, H), "model.norm": (H,), "lm_head": (V, H)}
    for layer in (0, 1):
        shapes |= {f"model.layers.{layer}.{name}": shape for name, shape in {**LAYER, **(MTP if layer else {})}.items()}
    tensors = {}
    for name, shape in shapes.items():
        count = shape[0] * (shape[1] if len(shape) > 1 else 1)
        tensors[name + ".weight"] = (shape, struct.pack(f"<{count}f", *(values.gauss(0, 1) for _ in range(count))))
    write(out / "bare", tensors)
    write(out / "counted", {**tensors, "tokens_seen": ((), struct.pack("<f", 7.0))})
    tensors["model.layers.1.embed_tokens.weight"] = tensors["model.embed_tokens.weight"]
    tensors["model.layers.1.shared_head.head.weight"] = tensors["lm_head.weight"]
    write(out / "whole", tensors)
    shape, data = tensors["lm_head.weight"]
    tensors["model.layers.1.shared_head.head.weight"] = (shape, data[:-4] + struct.pack("<f", 9.0))
    write(out / "damaged", tensors)


main(Path(sys.argv[1]))
