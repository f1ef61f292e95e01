# SPDX-License-Identifier: Apache-2.0
"""torchrun --nproc-per-node 2 accelerate_fsdp.py OUT: one step of AdamW of a Llama of one layer under FSDP2 on two ranks, saved by
accelerate's functions for SHARDED_STATE_DICT, in pytorch_model_fsdp_0 and optimizer_0."""
import sys
from pathlib import Path
from types import SimpleNamespace

import torch
import torch.distributed as dist
import transformers
from accelerate import PartialState
from accelerate.utils import fsdp_utils
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import StateDictType, fully_shard

out = Path(sys.argv[1])
state = PartialState(cpu=True)
torch.manual_seed(8)
settings = transformers.LlamaConfig(hidden_size=8, intermediate_size=12, num_hidden_layers=1, num_attention_heads=2,
                                    num_key_value_heads=1, vocab_size=13, max_position_embeddings=16, tie_word_embeddings=False)
model = transformers.LlamaForCausalLM(settings)
mesh = init_device_mesh("cpu", (state.num_processes,))
for layer in model.model.layers:
    fully_shard(layer, mesh=mesh)
fully_shard(model, mesh=mesh)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
ids = torch.arange(12).view(1, 12) + state.process_index
model(input_ids=ids, labels=ids).loss.backward()
optimizer.step()

rank = SimpleNamespace(num_processes=state.num_processes, process_index=state.process_index,
                       is_main_process=state.is_main_process, wait_for_everyone=dist.barrier, is_fsdp2=True)
plugin = SimpleNamespace(state_dict_type=StateDictType.SHARDED_STATE_DICT, state_dict_config=None, optim_state_dict_config=None,
                         fsdp_version=2)
fsdp_utils.save_fsdp_model(plugin, rank, model, str(out))
fsdp_utils.save_fsdp_optimizer(plugin, rank, optimizer, model, str(out))
if state.is_main_process:
    settings.architectures = ["LlamaForCausalLM"]
    settings.save_pretrained(out)
dist.barrier()
dist.destroy_process_group()
