# SPDX-License-Identifier: Apache-2.0
"""torchrun --nproc-per-node 2 autotp.py OUT [tied]: two steps of a Llama of one layer under ZeRO 1 and AutoTP of two ranks,
saved by DeepSpeed 0.19.8 with an affine_map in universal_checkpoint_info. Its vocabulary of 13 is split unevenly. OUT.json gets
digests of the whole tensors, which DeepSpeed's ds_to_universal joins."""
import hashlib
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

os.environ.update(DS_ACCELERATOR="cpu")
import deepspeed
import torch
import transformers


def digest(tensor):
    data = tensor.contiguous().view(torch.uint8).numpy().tobytes()
    dtype = {torch.float32: "f32", torch.bfloat16: "bf16"}[tensor.dtype]
    return {"dtype": dtype, "shape": list(tensor.shape), "sha256": hashlib.sha256(data).hexdigest()}


def joined(step):
    """Digests of weights and of optimizer state that ds_to_universal makes of `step`."""
    weights, states = {}, {}
    with tempfile.TemporaryDirectory() as scratch:
        options = ["--num_extract_workers", "1", "--num_merge_workers", "1", "--inject_missing_state"]
        subprocess.run([sys.executable, "-m", "deepspeed.checkpoint.ds_to_universal", "--input_folder", step, "--output_folder",
                        f"{scratch}/universal", *options], check=True)
        for folder in sorted(path for path in Path(scratch, "universal", "zero").iterdir() if (path / "exp_avg.pt").exists()):
            for state in ("fp32", "exp_avg", "exp_avg_sq"):
                tensor = torch.load(folder / f"{state}.pt", weights_only=False)["param"]
                states[f"{folder.name}/{state}"] = digest(tensor)
                if state == "fp32":
                    weights[folder.name] = digest(tensor.bfloat16())
    return {"tensors": weights, "optimizer": states}


torch.manual_seed(6)
sizes = dict(hidden_size=8, intermediate_size=12, num_hidden_layers=1, num_attention_heads=4, num_key_value_heads=2,
             vocab_size=13)
settings = transformers.LlamaConfig(**sizes, max_position_embeddings=16, tie_word_embeddings="tied" in sys.argv)
model = transformers.LlamaForCausalLM(settings)
config = {"train_micro_batch_size_per_gpu": 2, "zero_optimization": {"stage": 1}, "bf16": {"enabled": True},
          "optimizer": {"type": "AdamW", "params": {"lr": 1e-2, "torch_adam": True}}, "tensor_parallel": {"autotp_size": 2}}
engine, *_ = deepspeed.initialize(model=model, model_parameters=list(model.parameters()), config=config)
for _ in range(2):
    engine.backward(engine(torch.tensor([[1, 2, 3], [4, 5, 6]])).logits.float().square().mean())
    engine.step()
engine.save_checkpoint(sys.argv[1])
if int(os.environ["RANK"]) == 0:
    settings.save_pretrained(sys.argv[1])
    for script in Path(sys.argv[1]).glob("*.py"):
        script.unlink()
deepspeed.comm.barrier()
if int(os.environ["RANK"]) == 0:
    Path(sys.argv[1] + ".json").write_text(json.dumps(joined(sys.argv[1] + "/global_step2"), indent=1) + "\n")
