# SPDX-License-Identifier: Apache-2.0
"""gguf.py FOLDER: small GGUF files: tensors of numbers and one of a type that tpx does not decode, the former split over two files. Standard
library only."""

import os
import struct
import sys

ALIGNMENT = 32
F32, F16, Q8_0, I32 = 0, 1, 8, 26


def text(value):
    data = value.encode()
    return struct.pack("<Q", len(data)) + data


def pair(key, kind, value):
    packed = {4: lambda: struct.pack("<I", value), 2: lambda: struct.pack("<H", value), 6: lambda: struct.pack("<f", value),
              8: lambda: text(value), 9: lambda: struct.pack("<IQ", 8, len(value)) + b"".join(map(text, value))}[kind]()
    return text(key) + struct.pack("<I", kind) + packed


def write(path, pairs, tensors):
    """tensors: name, dimensions with the fastest first, type, bytes."""
    infos, data = b"", b""
    for name, dims, kind, content in tensors:
        data += b"\0" * (-len(data) % ALIGNMENT)
        infos += text(name) + struct.pack("<I", len(dims)) + struct.pack(f"<{len(dims)}Q", *dims)
        infos += struct.pack("<IQ", kind, len(data))
        data += content
    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(pairs)) + b"".join(pairs) + infos
    head += b"\0" * (-len(head) % ALIGNMENT)
    with open(path, "wb") as out:
        out.write(head + data)


def main(folder):
    folder = os.path.join(folder, "gguf")
    os.makedirs(folder, exist_ok=True)
    pairs = [pair("general.architecture", 8, "llama"), pair("llama.block_count", 4, 1), pair("rope.scale", 6, 0.5),
             pair("tokenizer.ggml.tokens", 9, ["<s>", "a", "b"])]
    numbers = [("token_embd.weight", (4, 3), F32, struct.pack("<12f", *range(12))),
               ("blk.0.attn_norm.weight", (4,), F16, struct.pack("<4e", 1, 2, 3, 4)),
               ("blk.0.ids", (2,), I32, struct.pack("<2i", 5, 6))]
    write(os.path.join(folder, "numbers.gguf"), pairs, numbers)
    write(os.path.join(folder, "mixed.gguf"), pairs,
          numbers + [("blk.0.ffn_up.weight", (32, 2), Q8_0, bytes(range(68)))])
    for k in range(2):
        split = [pair("split.no", 2, k), pair("split.count", 2, 2), pair("split.tensors.count", 4, 3)]
        write(os.path.join(folder, f"split-0000{k + 1}-of-00002.gguf"), (pairs if k == 0 else []) + split,
              numbers[:2] if k == 0 else numbers[2:])


if __name__ == "__main__":
    main(sys.argv[1])
