#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes testdata/megatron: `PYTHONPATH=tests/interop python -P precision.py OUT` with megatron-core 0.16.1 on the CPU.

A Llama of one layer and Adam's state after ten steps: in single precision as torch_dist with a plain optimizer (f32), and
in half precision, with a loss scale, as torch_dist with a distributed optimizer in buckets (f16). Values depend on names
only.
"""
import shutil
import sys
from pathlib import Path

import megatron_precision
from ranks import on_ranks

MODEL = megatron_precision.MODEL | {"layers": 1, "hidden": 8, "ffn": 8, "heads": 2, "kv_heads": 1, "kv_channels": 4, "vocab": 11}


def main():
    out = Path(sys.argv[1])
    for name, dtype, ranks, kind in (("f32", "f32", 1, None), ("f16", "f16", 2, "dp_reshardable")):
        on_ranks(ranks, megatron_precision.write, out / name, MODEL | {"dtype": dtype}, {}, kind)
        shutil.rmtree(out / name / "legacy")


if __name__ == "__main__":
    main()
