# SPDX-License-Identifier: Apache-2.0
"""A Llama of two layers (bf16) and Adam's state under Megatron-FSDP on two ranks, as Megatron-LM stores them with --ckpt-format
fsdp_dtensor: PYTHONPATH=tests/interop python -P testdata/make/megatron_fsdp.py testdata/megatron/fsdp-dp2 (Megatron-core 0.16.1).
Values depend on names only."""
import hashlib
import sys
from pathlib import Path

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor

import megatron_layouts as layouts
from megatron.core import parallel_state, tensor_parallel
from megatron.core.distributed import DistributedDataParallelConfig
from megatron.core.distributed.fsdp.mcore_fsdp_adapter import FullyShardedDataParallel
from megatron.core.distributed.fsdp.src.megatron_fsdp.uneven_dtensor import preprocess_state_dict_for_uneven_dtensor
from megatron.core.models.gpt import GPTModel
from megatron.core.models.gpt.gpt_layer_specs import get_gpt_decoder_block_spec
from megatron.core.optimizer import OptimizerConfig, get_megatron_optimizer
from megatron.core.transformer import fsdp_dtensor_checkpoint
from megatron.core.transformer.module import Float16Module
from ranks import on_ranks

SMALL = {"num_layers": 2, "hidden_size": 8, "ffn_hidden_size": 12, "num_attention_heads": 2, "num_query_groups": 1, "kv_channels": 4}
MODEL = {**layouts.DENSE, "common": {**layouts.DENSE["common"], **SMALL}, "vocab": 11}

# Meshes of GPUs are meshes of CPU ranks here.
_from_group = DeviceMesh.from_group
DeviceMesh.from_group = staticmethod(lambda group, device_type, *args, **kwargs: _from_group(group, "cpu", *args, **kwargs))
torch.cuda.current_device = lambda: 0


def set_up():
    parallel_state.initialize_model_parallel(1, 1, create_gloo_process_groups=True)
    tensor_parallel.model_parallel_cuda_manual_seed(1)
    config = layouts.config_of(MODEL)
    spec = get_gpt_decoder_block_spec(config, use_transformer_engine=False, normalization=config.normalization)
    model = GPTModel(
        config=config, transformer_layer_spec=spec, vocab_size=layouts.padded(MODEL, 1), max_sequence_length=MODEL["positions"],
        position_embedding_type="rope", share_embeddings_and_output_weights=False,
    )  # fmt: skip
    settings = DistributedDataParallelConfig(
        use_distributed_optimizer=True, use_megatron_fsdp=True, data_parallel_sharding_strategy="optim_grads_params",
        overlap_grad_reduce=True, overlap_param_gather=True, grad_reduce_in_fp32=True,
    )  # fmt: skip
    wrapped = FullyShardedDataParallel(config, settings, Float16Module(config, model), device=torch.device("cpu"))
    options = OptimizerConfig(
        optimizer="adam", lr=1e-3, min_lr=1e-4, weight_decay=0.1, bf16=True, params_dtype=torch.bfloat16, use_distributed_optimizer=True
    )
    optimizer = get_megatron_optimizer(options, [wrapped])
    for group in optimizer.optimizer.param_groups:
        for parameter in group["params"]:  # TransformerEngine's Adam has state of empty shards, too
            optimizer.optimizer.state[parameter].update(exp_avg=torch.zeros_like(parameter), exp_avg_sq=torch.zeros_like(parameter))
        group["step"] = 10
    return wrapped.module, optimizer


def tensors_in(state, name=""):
    for key, value in state.items():
        if isinstance(value, dict):
            yield from tensors_in(value, f"{name}{key}.")
        elif isinstance(value, DTensor):
            yield f"{name}{key}", value


def write(out):
    module, optimizer = set_up()
    args = layouts.args_of(MODEL, {}, True, None)
    vars(args).update(ckpt_format="fsdp_dtensor", use_megatron_fsdp=True, data_parallel_sharding_strategy="optim_grads_params")
    state = {"args": args, "checkpoint_version": 3.0, "iteration": 10, "model": module.state_dict_for_save_checkpoint()}
    state["optimizer"] = optimizer.sharded_state_dict(state, metadata={"distrib_optim_sharding_type": "fsdp_dtensor"})
    # As preprocess_fsdp_dtensor_state_dict() of Megatron-LM.
    state["model"], state["optimizer"] = fsdp_dtensor_checkpoint.handle_swiglu_in_state_dict(module, state["model"], state["optimizer"])
    preprocess_state_dict_for_uneven_dtensor(state)
    for name, tensor in tensors_in(state):
        if tensor._local_tensor.numel() == 0:
            continue
        (chunk,) = tensor._local_tensor.__create_chunk_list__()
        seed = int.from_bytes(hashlib.sha256(name.encode()).digest()[:7], "little")
        whole = torch.randn(tensor.shape, generator=torch.Generator().manual_seed(seed)).abs() * 0.05
        box = tuple(slice(begin, begin + size) for begin, size in zip(chunk.offsets, chunk.sizes))
        tensor._local_tensor.detach().copy_(whole[box])
    folder = Path(out, "iter_0000010")
    folder.mkdir(parents=True, exist_ok=True)
    Path(out, "latest_checkpointed_iteration.txt").write_text("10")
    dist.barrier()
    dcp.save(state, storage_writer=dcp.FileSystemWriter(folder))


on_ranks(2, write, sys.argv[1])
