# SPDX-License-Identifier: Apache-2.0
"""A Llama of two layers (bf16) after ten steps of Muon, for matrices, and Adam as Megatron-core 0.16.1 stores it in torch_dist and
in rank files: PYTHONPATH=tests/interop:EMERGING python -P testdata/make/muon.py testdata/megatron/muon, where EMERGING contains the
package emerging_optimizers 0.1.0 of github.com/NVIDIA-NeMo/Emerging-Optimizers. Values depend on names only. With the second argument
"experts", a model with four experts and biases."""
import sys
import types
from pathlib import Path

import torch

import megatron_layouts as layouts
import megatron_steps as steps
from megatron.core import dist_checkpointing, parallel_state, tensor_parallel
from megatron.core.dist_checkpointing.strategies import filesystem_async
from megatron.core.distributed import DistributedDataParallel, DistributedDataParallelConfig
from megatron.core.models.gpt import GPTModel
from megatron.core.models.gpt.gpt_layer_specs import get_gpt_decoder_block_spec
from megatron.core.optimizer import OptimizerConfig
from ranks import on_ranks, queue_of_rank

sys.modules["emerging_optimizers.triton_kernels"] = types.ModuleType("triton_kernels")  # only for a GPU
from megatron.core.optimizer import muon  # noqa: E402

SMALL = {"num_layers": 2, "hidden_size": 8, "ffn_hidden_size": 12, "num_attention_heads": 2, "num_query_groups": 1, "kv_channels": 4}
KIND = layouts.BIASED if "experts" in sys.argv[2:] else layouts.DENSE
MODEL = {**KIND, "common": {**KIND["common"], **SMALL, "moe_ffn_hidden_size": 12}, "vocab": 11}


def set_up():
    parallel_state.initialize_model_parallel(1, 1, create_gloo_process_groups=True)
    tensor_parallel.model_parallel_cuda_manual_seed(1)
    config = layouts.config_of(MODEL)
    spec = get_gpt_decoder_block_spec(config, use_transformer_engine=False, normalization=config.normalization)
    model = GPTModel(
        config=config, transformer_layer_spec=spec, vocab_size=layouts.padded(MODEL, 1), max_sequence_length=MODEL["positions"],
        position_embedding_type="rope", share_embeddings_and_output_weights=False,
    ).to(torch.bfloat16)  # fmt: skip
    wrapped = DistributedDataParallel(config, DistributedDataParallelConfig(use_distributed_optimizer=False), model)
    options = OptimizerConfig(optimizer="muon", lr=1e-3, min_lr=1e-4, weight_decay=0.1, bf16=True, params_dtype=torch.bfloat16)
    optimizer = muon.get_megatron_muon_optimizer(options, [wrapped])
    for one in optimizer.chained_optimizers:
        one.init_state_fn(one.optimizer, one.config)
    return model, optimizer


@torch.no_grad()
def fill(model, optimizer):
    places = layouts.places_of(model)
    names = {parameter: name for name, parameter in model.named_parameters()}

    def of(what, parameter):
        return layouts.value(MODEL, what, parameter.shape, places[names[parameter]])

    for parameter in names:
        parameter.data.copy_(of("weight", parameter))
    for one in optimizer.chained_optimizers:
        for pair in zip(one.float16_groups, one.fp32_from_float16_groups):
            for parameter, master in zip(*pair):
                exact = parameter.detach().float()
                master.copy_(exact + of("fraction", parameter) * 1e-3 * exact.abs())
                for what, state in one.optimizer.state[master].items():
                    state.copy_(of(what, parameter).abs() if what == "exp_avg_sq" else of(what, parameter))
        for group in one.optimizer.param_groups:
            group["step"] = 10


def write(out):
    filesystem_async._results_queue = queue_of_rank()
    model, optimizer = set_up()
    fill(model, optimizer)
    args = layouts.args_of(MODEL, {}, False, None)
    args.optimizer = "muon"
    common = {"args": args, "checkpoint_version": 3.0, "iteration": 10}
    for form in ("dist", "ranks"):
        folder = Path(out, form, "iter_0000010", *(["mp_rank_00"] if form == "ranks" else []))
        folder.mkdir(parents=True)
        Path(out, form, "latest_checkpointed_iteration.txt").write_text("10")
        if form == "dist":
            state, metadata = steps._state([model], optimizer, None, False)
            dist_checkpointing.save(state | common, str(folder), content_metadata=metadata)
            continue
        args.ckpt_format = "torch"
        parts = {"model": model.state_dict_for_save_checkpoint(), "optimizer": optimizer.state_dict()}
        torch.save(common | parts, folder / "model_optim_rng.pt")


on_ranks(1, write, sys.argv[1])
