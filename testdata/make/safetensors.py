#!/usr/bin/env python3
"""safetensors.py OUT: writes testdata/safetensors and testdata/llama-hf (OUT is testdata; standard library only).

safetensors/good: the forms a checkpoint can have, each with the JSON file of its whole tensors beside it.
safetensors/corrupt: one flaw each, named by the file; the message a reader must give stands in corrupt.json.
llama-hf: a Hugging Face Llama of 2 layers with random bf16 weights, the same at every run.
"""
import hashlib, json, os, random, shutil, struct, sys

DTYPES = {"BOOL": ("bool", 1), "U8": ("u8", 1), "F8_E4M3": ("f8_e4m3", 1), "I16": ("i16", 2), "BF16": ("bf16", 2), "F32": ("f32", 4),
          "I64": ("i64", 8)}


def product(values):
    n = 1
    for v in values:
        n *= v
    return n


def compact(value):
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def container(header, data=b"", pad=True):
    """A safetensors file of a header (text, bytes or an object) and the bytes after it."""
    text = header if isinstance(header, bytes) else (header if isinstance(header, str) else compact(header)).encode()
    if pad:
        text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + data


def file_of(tensors, metadata):
    """{name: (dtype, shape, bytes)} in the order given."""
    header, data = ({"__metadata__": metadata} if metadata else {}), b""
    for name, (dtype, shape, payload) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(payload)]}
        data += payload
    return container(header, data)


def write(path, content):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as out:
        out.write(content if isinstance(content, bytes) else content.encode())


def state(seed):
    """A few tensors of many dtypes; the bytes are random, which is valid for every dtype but bool."""
    r = random.Random(seed)
    shapes = [("bias", "F32", [5]), ("embed.weight", "BF16", [7, 6]), ("layers.0.mask", "BOOL", [3]), ("layers.0.w", "BF16", [6, 4]),
              ("layers.1.w", "BF16", [6, 4]), ("scale", "F8_E4M3", [2, 2]), ("scalar", "F32", []), ("steps", "I64", [2]), ("void", "I16", [0, 3]),
              ("\u00fcber \"w\"", "U8", [3])]
    out = {}
    for name, dtype, shape in shapes:
        n = product(shape) * DTYPES[dtype][1]
        out[name] = (dtype, shape, bytes(r.randrange(2 if dtype == "BOOL" else 256) for _ in range(n)))
    return out


def describe(tensors):
    return json.dumps({"tensors": {n: {"dtype": DTYPES[d][0], "shape": s, "sha256": hashlib.sha256(b).hexdigest()}
                                   for n, (d, s, b) in tensors.items()}}, indent=1, sort_keys=True) + "\n"


def reference_order(tensors):
    rank = ["BOOL", "U8", "F8_E4M3", "I16", "BF16", "F32", "I64"]
    return dict(sorted(tensors.items(), key=lambda item: (-rank.index(item[1][0]), item[0].encode())))


def rows(tensor, begin, end):
    dtype, shape, payload = tensor
    step = len(payload) // shape[0]
    return (dtype, [end - begin] + shape[1:], payload[begin * step:end * step])


def columns(tensor, begin, end):
    dtype, (n, m), payload = tensor
    size = len(payload) // (n * m)
    return (dtype, [n, end - begin], b"".join(payload[(i * m + begin) * size:(i * m + end) * size] for i in range(n)))


def good(out):
    all_of = reference_order(state(1))
    write(f"{out}/single/model.safetensors", file_of(all_of, {"format": "pt"}))
    write(f"{out}/single/config.json", '{\n  "architectures": ["Tiny"],\n  "model_type": "tiny",\n  "hidden_size": 6,\n  "eps": 1e-06,\n'
          '  "tied": false,\n  "pad": null,\n  "rope_parameters": {"theta": 10000.0}\n}\n')
    write(f"{out}/single/tokenizer.json", '{"version": "1.0"}\n')
    write(f"{out}/single.json", describe(all_of))

    names = list(all_of)
    halves = [names[:5], names[5:]]
    for i, half in enumerate(halves, 1):
        write(f"{out}/indexed/model-{i:05}-of-00002.safetensors", file_of({n: all_of[n] for n in half}, {"format": "pt"}))
    weight_map = {n: f"model-{i:05}-of-00002.safetensors" for i, half in enumerate(halves, 1) for n in half}
    write(f"{out}/indexed/model.safetensors.index.json",
          json.dumps({"metadata": {"total_size": sum(len(b) for _, _, b in all_of.values())}, "weight_map": weight_map}, indent=2, sort_keys=True) + "\n")
    write(f"{out}/indexed.json", describe(all_of))

    # Two ranks: one tensor by rows, unevenly; one by columns; one replicated on both; one on the second rank only.
    w = {"by_rows": all_of["embed.weight"], "by_columns": all_of["layers.0.w"], "replica": all_of["layers.1.w"], "one": all_of["bias"]}
    files = [({"by_rows": rows(w["by_rows"], 0, 4), "by_columns": columns(w["by_columns"], 0, 2), "replica": w["replica"]},
              {"by_rows": [0, 0], "by_columns": [0, 0], "replica": [0, 0]}),
             ({"by_rows": rows(w["by_rows"], 4, 7), "by_columns": columns(w["by_columns"], 2, 4), "replica": w["replica"], "one": w["one"]},
              {"by_rows": [4, 0], "by_columns": [0, 2], "replica": [0, 0], "one": [0]})]
    for i, (tensors, offsets) in enumerate(files, 1):
        info = json.dumps({n: {"saved_offsets": o} for n, o in offsets.items()})
        write(f"{out}/ranks/shard-{i:05}-model-00001-of-00001.safetensors",
              file_of(tensors, {"DCP_SHARDING_INFO": info, "DCP_VERSION": "1.0", "format": "pt"}))
    write(f"{out}/ranks.json", describe(w))


def corrupt(out):
    four = struct.pack("<4f", 1, 2, 3, 4)
    a = '{"dtype":"F32","shape":[4],"data_offsets":[0,16]}'
    cases = []

    def one(name, cause, header, data=four, **change):
        cases.append((name, cause, header if isinstance(header, tuple) else container(header, data, **change)))

    def tensor(cause, name, text, data=four):
        one(name, cause, '{"a":' + text + "}", data)

    one("empty", "0 bytes are too few", (b"",))
    one("seven-bytes", "7 bytes are too few", (b"\2\0\0\0\0\0\0",))
    one("length-2-63", "a header of 9223372036854775808 bytes", (struct.pack("<Q", 1 << 63) + b"{}",))
    one("length-max", "a header of 18446744073709551615 bytes", (struct.pack("<Q", (1 << 64) - 1) + b"{}      ",))
    one("length-past-end", "the file is truncated", (struct.pack("<Q", 4096) + b'{"a":{}}',))
    one("length-over-limit", "at most 100000000", (struct.pack("<Q", 100000001) + b'{"a":{}}',))
    one("space-first", "does not start with '{'", ' {"a":' + a + "}")
    one("array", "does not start with '{'", "[1]")
    one("not-json", "not JSON at byte", '{"a":{"dtype":"F32",,}')
    one("not-utf8", "not JSON at byte", b'{"a\xff\xfe":' + a.encode() + b"}")
    one("trailing-text", "not JSON at byte", '{"a":' + a + "}{}")
    one("zero-bytes", "a zero byte", b'{"a":' + a.encode() + b"}\0\0\0\0\0\0", four)
    one("lone-surrogate", "not JSON at byte", '{"\\ud800":' + a + "}")
    one("deep", "an array where none is allowed", '{"a":' + "[" * 500 + "]" * 500 + "}")
    one("deep-unknown", "nested more than", '{"a":{"x":' + "[" * 500 + "]" * 500 + "}}")
    one("name-twice", "tensor 'a': appears twice", '{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"a":{"dtype":"F32","shape":[2],"data_offsets":[8,16]}}')
    one("name-twice-lie", "tensor 'a'", '{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"a":' + a + "}")
    one("name-twice-empty", "tensor 'b': appears twice",
        '{"a":' + a + ',"b":{"dtype":"F32","shape":[0],"data_offsets":[16,16]},"b":{"dtype":"F32","shape":[0],"data_offsets":[16,16]}}')
    one("metadata-number", "__metadata__: a number", '{"__metadata__":{"step":3},"a":' + a + "}")
    one("metadata-object", "__metadata__: an object", '{"__metadata__":{"step":{}},"a":' + a + "}")
    one("metadata-twice", "__metadata__ appears twice", '{"__metadata__":{},"__metadata__":{},"a":' + a + "}")
    one("overlap", "tensor 'b'", '{"a":{"dtype":"F32","shape":[3],"data_offsets":[0,12]},"b":{"dtype":"F32","shape":[2],"data_offsets":[8,16]}}')
    one("hole", "tensor 'b'", '{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"b":{"dtype":"F32","shape":[2],"data_offsets":[8,16]}}')
    one("hole-at-start", "tensor 'a'", '{"a":{"dtype":"F32","shape":[3],"data_offsets":[4,16]}}')
    one("bytes-after", "bytes after the last tensor", '{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}')
    one("bytes-of-none", "bytes after the last tensor", "{}")
    one("cut-short", "the file is truncated", '{"a":' + a + "}", four[:12])
    tensor("end before they begin", "offsets-reversed", '{"dtype":"F32","shape":[4],"data_offsets":[16,0]}')
    tensor("has 20 bytes", "size-mismatch", '{"dtype":"F32","shape":[5],"data_offsets":[0,16]}')
    tensor("too large", "shape-overflow", '{"dtype":"F32","shape":[4294967296,4294967296,4],"data_offsets":[0,16]}')
    tensor("too large", "shape-overflow-zero", '{"dtype":"F32","shape":[4611686018427387904,4611686018427387904,0],"data_offsets":[0,0]}', b"")
    tensor("9223372036854775808 is too large", "shape-2-63", '{"dtype":"F32","shape":[9223372036854775808,0],"data_offsets":[0,0]}', b"")
    tensor("a negative number", "shape-negative", '{"dtype":"F32","shape":[-4],"data_offsets":[0,16]}')
    tensor("a fraction", "shape-fraction", '{"dtype":"F32","shape":[4.0],"data_offsets":[0,16]}')
    tensor("a fraction", "shape-exponent", '{"dtype":"F32","shape":[4e0],"data_offsets":[0,16]}')
    tensor("a string", "shape-string", '{"dtype":"F32","shape":["4"],"data_offsets":[0,16]}')
    tensor("null", "shape-null", '{"dtype":"F32","shape":null,"data_offsets":[0,16]}')
    tensor("more than 8 dimensions", "rank-9", '{"dtype":"F32","shape":[4,1,1,1,1,1,1,1,1],"data_offsets":[0,16]}')
    tensor("unknown dtype 'F33'", "dtype-unknown", '{"dtype":"F33","shape":[4],"data_offsets":[0,16]}')
    tensor("a number", "dtype-number", '{"dtype":3,"shape":[4],"data_offsets":[0,16]}')
    tensor("dtype appears twice", "dtype-twice", '{"dtype":"F32","dtype":"F32","shape":[4],"data_offsets":[0,16]}')
    tensor("needs dtype", "dtype-missing", '{"shape":[4],"data_offsets":[0,16]}')
    tensor("has 3 values", "offsets-three", '{"dtype":"F32","shape":[4],"data_offsets":[0,16,16]}')
    tensor("has 1 values", "offsets-one", '{"dtype":"F32","shape":[4],"data_offsets":[0]}')
    tensor("a fraction", "offsets-beyond-64-bits", '{"dtype":"F32","shape":[4],"data_offsets":[0,18446744073709551616]}')
    tensor("an array", "not-an-object", "[]")
    tensor("not a whole number of bytes", "f4-odd", '{"dtype":"F4","shape":[3],"data_offsets":[0,2]}', b"\x11\1")
    one("sharding-not-json", "DCP_SHARDING_INFO: not JSON", {"__metadata__": {"DCP_SHARDING_INFO": "{"}, "a": json.loads(a)})
    one("sharding-without-tensor", "tensor 'a': DCP_SHARDING_INFO does not say", {"__metadata__": {"DCP_SHARDING_INFO": "{}"}, "a": json.loads(a)})
    for name, offsets, cause in (("rank", "[0, 0]", "do not fit the shape"), ("huge", "[9223372036854775807]", "are too large"), ("negative", "[-1]", "a negative")):
        one("sharding-" + name, cause, {"__metadata__": {"DCP_SHARDING_INFO": '{"a": {"saved_offsets": ' + offsets + "}}"}, "a": json.loads(a)})
    for name, _, data in cases:
        write(f"{out}/{name}.safetensors", data[0] if isinstance(data, tuple) else data)
    listing = [{"file": name + ".safetensors", "cause": cause} for name, cause, _ in cases]
    write(f"{out}/corrupt.json", "[\n" + ",\n".join(json.dumps(row) for row in listing) + "\n]\n")


def bf16(value):
    """The bfloat16 next to a small number, as two bytes (ties to even)."""
    bits = struct.unpack("<I", struct.pack("<f", value))[0]
    return struct.pack("<H", (bits + 0x7fff + (bits >> 16 & 1)) >> 16)


def llama(out):
    layers, hidden, heads, kv, vocab, ffn = 2, 32, 4, 2, 70, 48
    head = hidden // heads
    shapes = {"model.embed_tokens.weight": [vocab, hidden], "model.norm.weight": [hidden], "lm_head.weight": [vocab, hidden]}
    for i in range(layers):
        p = f"model.layers.{i}."
        shapes.update({p + "input_layernorm.weight": [hidden], p + "post_attention_layernorm.weight": [hidden],
                       p + "self_attn.q_proj.weight": [heads * head, hidden], p + "self_attn.k_proj.weight": [kv * head, hidden],
                       p + "self_attn.v_proj.weight": [kv * head, hidden], p + "self_attn.o_proj.weight": [hidden, heads * head],
                       p + "mlp.gate_proj.weight": [ffn, hidden], p + "mlp.up_proj.weight": [ffn, hidden], p + "mlp.down_proj.weight": [hidden, ffn]})
    tensors = {}
    for name in sorted(shapes):
        r = random.Random(name)
        mean, spread = (1.0, 0.1) if "norm" in name else (0.0, 0.05)
        tensors[name] = ("BF16", shapes[name], b"".join(bf16(mean + spread * (2 * r.random() - 1)) for _ in range(product(shapes[name]))))
    write(f"{out}/model.safetensors", file_of(tensors, {"format": "pt"}))
    config = {"architectures": ["LlamaForCausalLM"], "attention_bias": False, "attention_dropout": 0.0, "bos_token_id": 1, "dtype": "bfloat16",
              "eos_token_id": 2, "head_dim": head, "hidden_act": "silu", "hidden_size": hidden, "initializer_range": 0.02, "intermediate_size": ffn,
              "max_position_embeddings": 64, "mlp_bias": False, "model_type": "llama", "num_attention_heads": heads, "num_hidden_layers": layers,
              "num_key_value_heads": kv, "pretraining_tp": 1, "rms_norm_eps": 1e-06,
              "rope_parameters": {"rope_theta": 10000.0, "rope_type": "default"}, "tie_word_embeddings": False, "use_cache": True, "vocab_size": vocab}
    write(f"{out}/config.json", json.dumps(config, indent=2) + "\n")


def main():
    out = sys.argv[1]
    for folder in ("safetensors", "llama-hf"):
        shutil.rmtree(f"{out}/{folder}", ignore_errors=True)
    good(f"{out}/safetensors/good")
    corrupt(f"{out}/safetensors/corrupt")
    llama(f"{out}/llama-hf")


if __name__ == "__main__":
    main()
