#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes bert, bert-fp8 and t5 in testdata/megatron: `PYTHONPATH=tests/interop python -P encoders.py OUT` with
megatron-core 0.16.1 on the CPU.

A BERT of two layers and a T5 of one layer (f32) with random values as rank files of several layouts, which Megatron-core
loaded from one torch_dist checkpoint. That one is not kept: it would be larger than the tests need. Linear layers of
bert-fp8 have extra states, as with FP8 in TransformerEngine, which needs a GPU.
"""
import sys
import tempfile
from pathlib import Path

import encoders
from ranks import on_ranks


def main():
    out = Path(sys.argv[1])
    for name, layouts in (("bert", [(2, 1), (1, 2)]), ("bert-fp8", [(1, 1), (1, 2)]), ("t5", [(2, 1)])):
        kind, scales = name.split("-")[0], name.endswith("fp8")
        with tempfile.TemporaryDirectory() as folder:
            on_ranks(1, encoders.write, kind, "torch_dist", 1, 1, None, folder, scales)
            for tp, pp in layouts:
                made = out / name / (f"tp{tp}" if pp == 1 else f"pp{pp}")
                on_ranks(tp * pp, encoders.write, kind, "torch", tp, pp, Path(folder, "iter_0000010"), made, scales)


if __name__ == "__main__":
    main()
