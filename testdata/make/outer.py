# SPDX-License-Identifier: Apache-2.0
"""outer.py TESTDATA: writes towers/gemma3, a Gemma 3 of two layers with a vision tower of one, and towers/qwen3-vl, a Qwen3-VL
of two layers with a vision tower of two, as transformers 5.23 saves them: configurations, and values of bf16 that follow from
their place."""
import json
import struct
import sys
from pathlib import Path

TEXT = {"model_type": "gemma3_text", "hidden_size": 8, "num_hidden_layers": 2, "num_attention_heads": 2, "num_key_value_heads": 2, "head_dim": 4,
        "intermediate_size": 12, "vocab_size": 10, "max_position_embeddings": 64, "rms_norm_eps": 1e-6, "query_pre_attn_scalar": 4, "sliding_window": 4,
        "layer_types": ["sliding_attention", "full_attention"],
        "rope_parameters": {"sliding_attention": {"rope_type": "default", "rope_theta": 10000.0}, "full_attention": {"rope_type": "default", "rope_theta": 1000000.0}}}  # fmt: skip
VISION = {"model_type": "siglip_vision_model", "hidden_size": 6, "intermediate_size": 10, "num_hidden_layers": 1, "num_attention_heads": 2, "image_size": 4, "patch_size": 2}
CONFIG = {"model_type": "gemma3", "architectures": ["Gemma3ForConditionalGeneration"], "dtype": "bfloat16", "mm_tokens_per_image": 4, "image_token_index": 9,
          "boi_token_index": 8, "eoi_token_index": 7, "text_config": TEXT, "vision_config": VISION}  # fmt: skip


QWEN_TEXT = {"model_type": "qwen3_vl_text", "hidden_size": 8, "num_hidden_layers": 2, "num_attention_heads": 2, "num_key_value_heads": 2, "head_dim": 4,
             "intermediate_size": 12, "vocab_size": 10, "max_position_embeddings": 64, "rms_norm_eps": 1e-6,
             "rope_parameters": {"rope_type": "default", "rope_theta": 5000000.0, "mrope_section": [1, 1, 0]}}  # fmt: skip
QWEN_VISION = {"model_type": "qwen3_vl", "depth": 2, "hidden_size": 8, "num_heads": 2, "intermediate_size": 12, "out_hidden_size": 8, "patch_size": 2,
               "temporal_patch_size": 1, "spatial_merge_size": 1, "num_position_embeddings": 4, "deepstack_visual_indexes": [0]}  # fmt: skip
QWEN = {"model_type": "qwen3_vl", "architectures": ["Qwen3VLForConditionalGeneration"], "dtype": "bfloat16", "tie_word_embeddings": True, "image_token_id": 9,
        "text_config": QWEN_TEXT, "vision_config": QWEN_VISION}  # fmt: skip


def attention_and_mlp(start, hidden, wide, head):
    for part in "qkv":
        yield f"{start}self_attn.{part}_proj.weight", [2 * head, hidden]
    yield f"{start}self_attn.o_proj.weight", [hidden, 2 * head]
    yield f"{start}self_attn.q_norm.weight", [head]
    yield f"{start}self_attn.k_norm.weight", [head]
    yield f"{start}mlp.gate_proj.weight", [wide, hidden]
    yield f"{start}mlp.up_proj.weight", [wide, hidden]
    yield f"{start}mlp.down_proj.weight", [hidden, wide]


def qwen_shapes():
    hidden, wide, head = 8, 12, 4
    yield "model.language_model.embed_tokens.weight", [10, hidden]
    for layer in range(2):
        start = f"model.language_model.layers.{layer}."
        for norm in ("input_layernorm", "post_attention_layernorm"):
            yield f"{start}{norm}.weight", [hidden]
        yield from attention_and_mlp(start, hidden, wide, head)
    yield "model.language_model.norm.weight", [hidden]
    yield "model.visual.patch_embed.proj.weight", [hidden, 3, 1, 2, 2]
    yield "model.visual.patch_embed.proj.bias", [hidden]
    yield "model.visual.pos_embed.weight", [4, hidden]
    merger = (("linear_fc1", [hidden, hidden]), ("linear_fc2", [hidden, hidden]), ("norm", [hidden]))
    block = (("norm1", [hidden]), ("attn.qkv", [3 * hidden, hidden]), ("attn.proj", [hidden, hidden]), ("norm2", [hidden]),
             ("mlp.linear_fc1", [wide, hidden]), ("mlp.linear_fc2", [hidden, wide]))  # fmt: skip
    for start, parts in [("blocks.0", block), ("blocks.1", block), ("merger", merger), ("deepstack_merger_list.0", merger)]:
        for name, shape in parts:
            yield f"model.visual.{start}.{name}.weight", shape
            yield f"model.visual.{start}.{name}.bias", shape[:1]


def shapes():
    hidden, wide, head, seen, mlp = 8, 12, 4, 6, 10
    yield "language_model.model.embed_tokens.weight", [10, hidden]
    for layer in range(2):
        start = f"language_model.model.layers.{layer}."
        for norm in ("input_layernorm", "post_attention_layernorm", "pre_feedforward_layernorm", "post_feedforward_layernorm"):
            yield f"{start}{norm}.weight", [hidden]
        yield from attention_and_mlp(start, hidden, wide, head)
    yield "language_model.model.norm.weight", [hidden]
    yield "multi_modal_projector.mm_input_projection_weight", [seen, hidden]
    yield "multi_modal_projector.mm_soft_emb_norm.weight", [seen]
    yield "vision_tower.embeddings.patch_embedding.weight", [seen, 3, 2, 2]
    yield "vision_tower.embeddings.patch_embedding.bias", [seen]
    yield "vision_tower.embeddings.position_embedding.weight", [4, seen]
    start = "vision_tower.encoder.layers.0."
    for name, shape in (("layer_norm1", [seen]), ("layer_norm2", [seen]), ("self_attn.q_proj", [seen, seen]), ("self_attn.k_proj", [seen, seen]),
                        ("self_attn.v_proj", [seen, seen]), ("self_attn.out_proj", [seen, seen]), ("mlp.fc1", [mlp, seen]), ("mlp.fc2", [seen, mlp])):  # fmt: skip
        yield f"{start}{name}.weight", shape
        yield f"{start}{name}.bias", shape[:1]
    yield "vision_tower.post_layernorm.weight", [seen]
    yield "vision_tower.post_layernorm.bias", [seen]


def write(folder, config, tensors):
    folder.mkdir(parents=True, exist_ok=True)
    header, data = {"__metadata__": {"format": "pt"}}, b""
    for number, (name, shape) in enumerate(tensors):
        count = 1
        for size in shape:
            count *= size
        values = struct.pack(f"<{count}H", *((0x3C00 + 997 * number + 31 * k) % 0x7F00 for k in range(count)))
        header[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [len(data), len(data) + len(values)]}
        data += values
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + data)
    (folder / "config.json").write_text(json.dumps(config, indent=1) + "\n")


if __name__ == "__main__":
    write(Path(sys.argv[1], "towers/gemma3"), CONFIG, shapes())
    write(Path(sys.argv[1], "towers/qwen3-vl"), QWEN, qwen_shapes())
