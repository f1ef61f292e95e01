# SPDX-License-Identifier: Apache-2.0
"""llama.py OUT [LAYERS]: writes a Hugging Face Llama checkpoint of random bytes, with the matrices of a 7B model (hidden
4096, 32 heads, 8 KV heads, ffn 14336, vocabulary 32000, bf16); 4 layers are 2.1 GiB."""
import json
import os
import random
import struct
import sys
from pathlib import Path

HIDDEN, HEADS, KV_HEADS, FFN, VOCABULARY = 4096, 32, 8, 14336, 32000


def shapes(layers):
    """Yields (name, shape) for each tensor, in the order of the file."""
    kv = HIDDEN // HEADS * KV_HEADS
    yield "model.embed_tokens.weight", (VOCABULARY, HIDDEN)
    for i in range(layers):
        layer = f"model.layers.{i}."
        yield layer + "input_layernorm.weight", (HIDDEN,)
        yield layer + "self_attn.q_proj.weight", (HIDDEN, HIDDEN)
        yield layer + "self_attn.k_proj.weight", (kv, HIDDEN)
        yield layer + "self_attn.v_proj.weight", (kv, HIDDEN)
        yield layer + "self_attn.o_proj.weight", (HIDDEN, HIDDEN)
        yield layer + "post_attention_layernorm.weight", (HIDDEN,)
        yield layer + "mlp.gate_proj.weight", (FFN, HIDDEN)
        yield layer + "mlp.up_proj.weight", (FFN, HIDDEN)
        yield layer + "mlp.down_proj.weight", (HIDDEN, FFN)
    yield "model.norm.weight", (HIDDEN,)
    yield "lm_head.weight", (VOCABULARY, HIDDEN)


def config(layers):
    return {
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "dtype": "bfloat16", "hidden_act": "silu",
        "hidden_size": HIDDEN, "intermediate_size": FFN, "num_attention_heads": HEADS, "num_key_value_heads": KV_HEADS,
        "head_dim": HIDDEN // HEADS, "num_hidden_layers": layers, "vocab_size": VOCABULARY, "rms_norm_eps": 1e-05,
        "attention_bias": False, "mlp_bias": False, "tie_word_embeddings": False, "max_position_embeddings": 4096,
    }  # fmt: skip


def write(out, layers):
    """Writes the checkpoint, with the same bytes every time; returns the bytes of its tensors."""
    out = Path(out)
    out.mkdir(parents=True)
    (out / "config.json").write_text(json.dumps(config(layers), indent=2) + "\n")
    header, at = {"__metadata__": {"format": "pt"}}, 0
    for name, shape in shapes(layers):
        size = 2 * shape[0] * (shape[1] if len(shape) == 2 else 1)
        header[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [at, at + size]}
        at += size
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    noise = random.Random(1).randbytes(1 << 24)
    with open(out / "model.safetensors", "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        # Every block begins at another place in the noise, so that no two matrices are equal.
        for i in range(-(-at // len(noise))):
            cut = i * 65537 % len(noise)
            block = noise[cut:] + noise[:cut]
            file.write(block[: at - i * len(noise)])
        file.flush()
        os.fsync(file.fileno())
    return at


if __name__ == "__main__":
    print(write(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 4), "bytes")
