#!/usr/bin/env python3
"""rules.py OUT: writes testdata/rules/sandwich (OUT is testdata; standard library only): a checkpoint of a model that no
built-in family describes, 2 layers with random bf16 weights, the same at every run. rules/sandwich.toml describes it."""
import json, os, random, struct, sys

LAYERS, HIDDEN, HEADS, GROUPS, HEAD, VOCAB, EXPERTS, WIDTH = 2, 16, 4, 2, 4, 50, 4, 12
CONFIG = {
    "model_type": "sandwich", "num_hidden_layers": LAYERS, "hidden_size": HIDDEN, "num_attention_heads": HEADS,
    "num_key_value_heads": GROUPS, "head_dim": HEAD, "vocab_size": VOCAB, "num_experts": EXPERTS,
    "moe_intermediate_size": WIDTH, "tie_word_embeddings": False,
}  # fmt: skip


def shapes():
    yield "model.embed_tokens.weight", [VOCAB, HIDDEN]
    for layer in range(LAYERS):
        at = f"model.layers.{layer}"
        for norm in ("input_layernorm", "post_attention_layernorm", "post_norm"):
            yield f"{at}.{norm}.weight", [HIDDEN]
        yield f"{at}.self_attn.q_proj.weight", [HEADS * HEAD, HIDDEN]
        yield f"{at}.self_attn.k_proj.weight", [GROUPS * HEAD, HIDDEN]
        yield f"{at}.self_attn.v_proj.weight", [GROUPS * HEAD, HIDDEN]
        yield f"{at}.self_attn.o_proj.weight", [HIDDEN, HEADS * HEAD]
        yield f"{at}.experts.router", [EXPERTS, HIDDEN]
        yield f"{at}.experts.gate_up", [EXPERTS, 2 * WIDTH, HIDDEN]
        yield f"{at}.experts.down", [EXPERTS, WIDTH, HIDDEN]
    yield "model.norm.weight", [HIDDEN]
    yield "lm_head.weight", [VOCAB, HIDDEN]


def main():
    folder = os.path.join(sys.argv[1], "rules", "sandwich")
    os.makedirs(folder, exist_ok=True)
    random.seed(5)
    header, data = {}, bytearray()
    for name, shape in shapes():
        begin, count = len(data), 1
        for size in shape:
            count *= size
        for _ in range(count):
            data += struct.pack("<f", random.gauss(0, 0.05))[2:]
        header[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [begin, len(data)]}
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(os.path.join(folder, "model.safetensors"), "wb") as out:
        out.write(struct.pack("<Q", len(text)) + text + data)
    with open(os.path.join(folder, "config.json"), "w") as out:
        out.write(json.dumps(CONFIG, indent=2) + "\n")


if __name__ == "__main__":
    main()
