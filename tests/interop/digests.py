# SPDX-License-Identifier: Apache-2.0
"""Digests of whole tensors, and their comparison with the JSON file of a checkpoint."""
import hashlib
import json

import torch

NAMES = {
    torch.float64: "f64", torch.float32: "f32", torch.float16: "f16", torch.bfloat16: "bf16",
    torch.float8_e4m3fn: "f8_e4m3", torch.float8_e5m2: "f8_e5m2",
    torch.int64: "i64", torch.int32: "i32", torch.int16: "i16", torch.int8: "i8", torch.uint8: "u8", torch.bool: "bool",
}  # fmt: skip


def entry(tensor):
    """dtype, shape and SHA-256 of the tensor's bytes in C order."""
    flat = tensor.detach().contiguous().reshape(-1)
    data = flat.view(torch.uint8).numpy().tobytes() if flat.numel() else b""
    return {"dtype": NAMES[tensor.dtype], "shape": list(tensor.shape), "sha256": hashlib.sha256(data).hexdigest()}


def read(path):
    """The JSON file with `model` and `tensors`."""
    with open(path) as file:
        return json.load(file)


def differences(found, expected):
    """One line for each tensor that is missing, unexpected or different; both arguments map names to entries."""
    lines = [f"missing: {name}" for name in sorted(expected.keys() - found.keys())]
    lines += [f"unexpected: {name}" for name in sorted(found.keys() - expected.keys())]
    for name in sorted(found.keys() & expected.keys()):
        if found[name] != expected[name]:
            form = [f"{e['dtype']} {e['shape']} {e['sha256'][:8]}" for e in (found[name], expected[name])]
            lines.append(f"differs: {name}: {form[0]} instead of {form[1]}")
    return lines
