# SPDX-License-Identifier: Apache-2.0
"""bridge_lora.py TESTDATA: writes adapters/bridge, an adapter of llama-hf as Megatron Bridge's LoRA saves it: rank 2, alpha 6, of
linear_qkv and linear_fc2, in torch_dist by PyTorch's DCP, with the part of run_config.yaml that tpx reads. Names and shapes are
those of megatron-bridge 0.6.2, peft/utils.py (ParallelLinearAdapter) and peft/adapter_wrapper.py."""
import shutil
import sys
from pathlib import Path

import torch
from torch.distributed.checkpoint import FileSystemWriter, save

RANK, LAYERS, HIDDEN, WIDE, ROWS = 2, 2, 32, 48, 64


def main(testdata):
    folder = Path(testdata, "adapters/bridge")
    shutil.rmtree(folder, ignore_errors=True)
    there = folder / "iter_0000020"
    there.mkdir(parents=True)
    torch.manual_seed(11)
    tensors = {}
    for name, (out, into) in {"self_attention.linear_qkv": (ROWS, HIDDEN), "mlp.linear_fc2": (HIDDEN, WIDE)}.items():
        tensors[f"decoder.layers.{name}.adapter.linear_in.weight"] = torch.randn(LAYERS, RANK, into).bfloat16()
        tensors[f"decoder.layers.{name}.adapter.linear_out.weight"] = torch.randn(LAYERS, out, RANK).bfloat16()
    save(tensors, storage_writer=FileSystemWriter(there), no_dist=True)
    torch.save({"iteration": 20}, there / "common.pt")
    (there / "metadata.json").write_text('{"sharded_backend": "torch_dist", "sharded_backend_version": 1, "common_backend": "torch", "common_backend_version": 1}')
    (there / "run_config.yaml").write_text(f"model:\n  num_layers: {LAYERS}\npeft:\n  _target_: megatron.bridge.peft.lora.LoRA\n  alpha: 6\n  dim: {RANK}\n")
    (folder / "latest_checkpointed_iteration.txt").write_text("20")


main(sys.argv[1])
