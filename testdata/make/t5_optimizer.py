# SPDX-License-Identifier: Apache-2.0
"""A T5 of Megatron-core with Adam's state as rank files: PYTHONPATH=tests/interop python -P testdata/make/t5_optimizer.py
testdata/megatron/t5-optimizer (Megatron-core 0.16.1). With a second argument buckets, as torch_dist with the distributed
optimizer's buckets. The encoder has three layers and the decoder two, in bfloat16 with master weights; values depend on
names only."""
import sys
from copy import deepcopy
from pathlib import Path

import torch

import encoders
import megatron_layouts as layouts
import megatron_steps as steps
from megatron.core import dist_checkpointing, parallel_state, tensor_parallel
from megatron.core.dist_checkpointing.strategies import filesystem_async
from megatron.core.distributed import DistributedDataParallel, DistributedDataParallelConfig
from megatron.core.optimizer import OptimizerConfig, get_megatron_optimizer
from megatron.core.transformer.transformer_config import TransformerConfig
from ranks import on_ranks, queue_of_rank

ENCODER, DECODER = 3, 2


def value(model, what, shape, places):
    """As in megatron_layouts; the vocabulary is not padded."""
    key, whole, box, _ = places[0]
    return layouts_value({**model, "vocab": whole[0] if "word_embeddings" in key or "output_layer" in key else 0}, what, shape, places)


def write(out, buckets):
    parallel_state.initialize_model_parallel(1, 1, create_gloo_process_groups=True)
    tensor_parallel.model_parallel_cuda_manual_seed(5)
    config = TransformerConfig(
        num_layers=DECODER, hidden_size=encoders.HIDDEN, ffn_hidden_size=encoders.FFN, num_attention_heads=encoders.HEADS,
        use_cpu_initialization=True, persist_layer_norm=False, masked_softmax_fusion=False, bias_activation_fusion=False,
        bias_dropout_fusion=False, gradient_accumulation_fusion=False, bf16=True, params_dtype=torch.bfloat16,
    )  # fmt: skip
    encoder = deepcopy(config)
    encoder.num_layers = ENCODER
    model = encoders.T5Model(
        config, encoder, encoders.t5_spec.get_t5_encoder_with_local_block_spec(ENCODER),
        encoders.t5_spec.get_t5_decoder_with_local_block_spec(DECODER), vocab_size=encoders.padded(1),
        max_sequence_length=encoders.POSITIONS, pre_process=True, post_process=True, share_embeddings_and_output_weights=True,
    )  # fmt: skip
    model.to(torch.bfloat16)
    wrapped = DistributedDataParallel(config, DistributedDataParallelConfig(use_distributed_optimizer=buckets), model)
    settings = OptimizerConfig(
        optimizer="adam", lr=1e-3, min_lr=1e-4, weight_decay=0.1, bf16=True, params_dtype=torch.bfloat16,
        use_distributed_optimizer=buckets,
    )  # fmt: skip
    optimizer = get_megatron_optimizer(settings, [wrapped])
    for one in optimizer.chained_optimizers if not buckets else []:
        one.init_state_fn(one.optimizer, one.config)
    layouts.fill({}, [model], optimizer, buckets)
    args = encoders.args_of("t5", "torch_dist" if buckets else "torch", 1, 1)
    vars(args).update(bf16=True, num_layers=ENCODER, encoder_num_layers=ENCODER, decoder_num_layers=DECODER)
    args.use_distributed_optimizer = buckets
    folder = Path(out, "iter_0000010", "" if buckets else "mp_rank_00")
    folder.mkdir(parents=True)
    Path(out, "latest_checkpointed_iteration.txt").write_text("10")
    common = {"args": args, "checkpoint_version": 3.0, "iteration": 10}
    if buckets:
        filesystem_async._results_queue = queue_of_rank()
        state, metadata = steps._state([model], optimizer, "dp_reshardable", False)
        return dist_checkpointing.save(state | common, str(folder), content_metadata=metadata)
    torch.save({**common, "model": model.state_dict_for_save_checkpoint(), "optimizer": optimizer.state_dict()}, folder / "model_optim_rng.pt")


layouts_value, layouts.value = layouts.value, value
on_ranks(1, write, sys.argv[1], sys.argv[2:] == ["buckets"])
