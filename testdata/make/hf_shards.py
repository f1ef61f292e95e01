# SPDX-License-Identifier: Apache-2.0
"""Writes `fsdp3`, a Llama of one layer as HuggingFaceStorageWriter of PyTorch saves it under FSDP2 of three ranks, its config.json as
`fsdp3.config.json`, and `gathered.bin`, AdamW's state as FSDP2 gathers it on one rank.

Usage: torchrun --nproc-per-node 3 testdata/make/hf_shards.py OUT
"""
import shutil
import sys

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint import HuggingFaceStorageWriter
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict, get_optimizer_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from transformers import LlamaConfig, LlamaForCausalLM

out = sys.argv[1]
dist.init_process_group("gloo")
torch.manual_seed(1)
config = LlamaConfig(vocab_size=12, hidden_size=12, intermediate_size=18, num_hidden_layers=1, num_attention_heads=2,
                     num_key_value_heads=2, head_dim=6, max_position_embeddings=32)
model = LlamaForCausalLM(config).to(torch.bfloat16)
mesh = init_device_mesh("cpu", (dist.get_world_size(),))
fully_shard(model.model.layers[0], mesh=mesh)
fully_shard(model, mesh=mesh)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
for _ in range(2):
    tokens = torch.randint(0, 12, (2, 8))
    model(input_ids=tokens, labels=tokens).loss.backward()
    optimizer.step()
    optimizer.zero_grad()
writer = HuggingFaceStorageWriter(f"{out}/fsdp3", save_distributed=True)
dcp.save(get_model_state_dict(model), storage_writer=writer)
full = get_optimizer_state_dict(model, optimizer, options=StateDictOptions(full_state_dict=True, cpu_offload=True))
if dist.get_rank() == 0:
    torch.save(full, f"{out}/gathered.bin")
    config.save_pretrained(f"{out}/config")
    shutil.move(f"{out}/config/config.json", f"{out}/fsdp3.config.json")
    shutil.rmtree(f"{out}/config")
dist.barrier()
dist.destroy_process_group()
