# SPDX-License-Identifier: Apache-2.0
"""Megatron-core's BERT and T5: tpx finds the same state in torch_dist and in rank files of every layout, which Megatron-core
wrote; rank files that tpx makes equal Megatron-core's, and torch_dist that it makes loads like Megatron-core's own, bit for
bit. T5's state is the same in rank files and in the buckets of the distributed optimizer."""
import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import torch
import torch.distributed as dist

import load_megatron  # noqa: F401 (its stand-ins for a GPU come first)
import megatron_steps as steps
from megatron.core import dist_checkpointing, parallel_state, tensor_parallel
from megatron.core.dist_checkpointing.strategies import filesystem_async
from megatron.core.models.bert import bert_layer_specs
from megatron.core.models.bert.bert_model import BertModel
from megatron.core.models.T5 import t5_spec
from megatron.core.models.T5.t5_model import T5Model
from megatron.core.tensor_parallel import layers
from megatron.core.transformer.transformer_config import TransformerConfig
from outcomes import Outcomes
from rank_files import differences
from ranks import on_ranks, queue_of_rank

HIDDEN, HEADS, FFN, VOCAB, DIVISIBLE, POSITIONS = 8, 2, 12, 13, 4, 10
LAYERS = {"bert": 2, "t5": 1}


def padded(tp):
    return -(-VOCAB // (DIVISIBLE * tp)) * DIVISIBLE * tp


def args_of(kind, form, tp, pp):
    """The arguments of Megatron-LM that describe the model, by name."""
    return argparse.Namespace(
        tensor_model_parallel_size=tp, pipeline_model_parallel_size=pp, expert_model_parallel_size=1, world_size=tp * pp,
        expert_tensor_parallel_size=tp, virtual_pipeline_model_parallel_size=None, context_parallel_size=1,
        data_parallel_size=1, num_layers=LAYERS[kind], encoder_num_layers=LAYERS[kind],
        decoder_num_layers=LAYERS[kind] if kind == "t5" else None, hidden_size=HIDDEN, ffn_hidden_size=FFN,
        kv_channels=HIDDEN // HEADS, num_attention_heads=HEADS, group_query_attention=False, num_query_groups=1, swiglu=False,
        normalization="LayerNorm", add_bias_linear=True, add_qkv_bias=False, qk_layernorm=False,
        position_embedding_type="learned_absolute", max_position_embeddings=POSITIONS, padded_vocab_size=padded(tp),
        vocab_size=VOCAB, make_vocab_size_divisible_by=DIVISIBLE, untie_embeddings_and_output_weights=False, num_experts=None,
        transformer_impl="local", bert_binary_head=kind == "bert", use_distributed_optimizer=False, bf16=False, fp16=False,
        ckpt_format=form,
    )  # fmt: skip


def build(kind, tp, pp):
    """This rank's part of the model."""
    parallel_state.initialize_model_parallel(tp, pp)
    tensor_parallel.model_parallel_cuda_manual_seed(5)
    torch.manual_seed(5)
    config = TransformerConfig(
        num_layers=LAYERS[kind], hidden_size=HIDDEN, ffn_hidden_size=FFN, num_attention_heads=HEADS,
        tensor_model_parallel_size=tp, pipeline_model_parallel_size=pp, pipeline_dtype=torch.float32,
        use_cpu_initialization=True, persist_layer_norm=False, masked_softmax_fusion=False, bias_activation_fusion=False,
        bias_dropout_fusion=False, gradient_accumulation_fusion=False,
    )  # fmt: skip
    stage = parallel_state.get_pipeline_model_parallel_rank()
    given = {"vocab_size": padded(tp), "max_sequence_length": POSITIONS, "pre_process": stage == 0,
             "post_process": stage == pp - 1, "share_embeddings_and_output_weights": True}  # fmt: skip
    if kind == "bert":
        return BertModel(config, 2, bert_layer_specs.bert_layer_local_spec, add_binary_head=True, **given)
    encoder, decoder = (f(LAYERS[kind]) for f in (t5_spec.get_t5_encoder_with_local_block_spec, t5_spec.get_t5_decoder_with_local_block_spec))
    return T5Model(config, config, encoder, decoder, **given)


def add_scales():
    """Linear layers get an extra state, as those of TransformerEngine with FP8 have, which depends on their weights."""

    def state_of(self):
        if getattr(self, "output_size", 0) == padded(1):  # the output layer has no FP8
            return None
        scale = self.weight.detach().double().sum().reshape(1)
        return torch.cat([scale, torch.ones(7, dtype=torch.double)]).view(torch.uint8)

    for kind in (layers.ColumnParallelLinear, layers.RowParallelLinear):
        kind.get_extra_state, kind.set_extra_state = state_of, lambda self, state: None


@torch.no_grad()
def write(kind, form, tp, pp, source, out, scales=False):
    filesystem_async._results_queue = queue_of_rank()
    if scales:
        add_scales()
    model = build(kind, tp, pp)
    metadata = {"dp_cp_group": parallel_state.get_data_parallel_group(with_context_parallel=True)}
    for parameter in model.parameters():
        parameter.copy_(torch.randn(parameter.shape) * 0.05)
    if source is not None:
        wanted = {"model": model.sharded_state_dict(metadata=metadata)}
        model.load_state_dict(dist_checkpointing.load(wanted, str(source))["model"])
    common = {"args": args_of(kind, form, tp, pp), "checkpoint_version": 3.0, "iteration": 10}
    folder = Path(out, "iter_0000010")
    rank = f"mp_rank_{parallel_state.get_tensor_model_parallel_rank():02d}"
    rank += f"_{parallel_state.get_pipeline_model_parallel_rank():03d}" if pp > 1 else ""
    Path(folder, rank if form == "torch" else "").mkdir(parents=True, exist_ok=True)
    Path(out, "latest_checkpointed_iteration.txt").write_text("10")
    dist.barrier()
    if form == "torch":
        return torch.save({**common, "model": model.state_dict_for_save_checkpoint()}, folder / rank / "model_optim_rng.pt")
    dist_checkpointing.save({**model.sharded_state_dict(metadata=metadata), **common}, str(folder))


def load(kind, tp, pp, folder):
    """The parameters after Megatron-core has loaded a torch_dist checkpoint."""
    model = build(kind, tp, pp)
    for parameter in model.parameters():
        parameter.data.fill_(float("nan"))
    metadata = {"dp_cp_group": parallel_state.get_data_parallel_group(with_context_parallel=True)}
    wanted = {"model": model.sharded_state_dict(metadata=metadata)}
    model.load_state_dict(dist_checkpointing.load(wanted, str(folder))["model"])
    return {name: parameter.detach().clone() for name, parameter in model.named_parameters()}


def same_models(ours, theirs):
    """The differences of the models in rank files."""
    faults = []
    for path in sorted(Path(theirs).glob("iter_*/mp_rank_*/model_optim_rng.pt")):
        mine, known = (torch.load(folder / path.relative_to(theirs), weights_only=False)["model"] for folder in (ours, theirs))
        faults += [f"{path.parent.name}: {line}" for line in differences(mine, known, "model")]
    return faults


def main(tpx):
    outcomes = Outcomes()
    report = outcomes.report

    for kind, layouts in (("bert", [(1, 1), (2, 1), (1, 2)]), ("t5", [(1, 1), (2, 1)])):
        with tempfile.TemporaryDirectory() as name:
            folder, source = Path(name), None
            (folder / "out").mkdir()
            for tp, pp in layouts:
                for form in ("torch_dist", "torch"):
                    on_ranks(tp * pp, write, kind, form, tp, pp, source, folder / f"{form}-{tp}-{pp}")
                    source = source or folder / f"{form}-{tp}-{pp}" / "iter_0000010"
            for tp, pp in layouts:
                for form in ("torch_dist", "torch"):
                    one = folder / f"{form}-{tp}-{pp}"
                    status, said = steps._run(tpx, "verify", folder / "torch_dist-1-1", one)
                    report(f"{kind} {one.name} is the same state", [said] if status else [])
                    for to_tp, to_pp in layouts:
                        for made in ("torch_dist", "megatron"):
                            out = folder / "out" / f"{one.name}-{made}-{to_tp}-{to_pp}"
                            status, said = steps._run(tpx, "reshard", one, out, "--to", f"tp={to_tp},pp={to_pp}",
                                                      "--format", made, "--quiet")  # fmt: skip
                            faults = [said] if status else []
                            if not status and made == "megatron":
                                faults = same_models(out, folder / f"torch-{to_tp}-{to_pp}")
                            if not status and made == "torch_dist":
                                theirs, ours = (on_ranks(to_tp * to_pp, load, kind, to_tp, to_pp, x / "iter_0000010")
                                                for x in (folder / f"torch_dist-{to_tp}-{to_pp}", out))  # fmt: skip
                                faults = differences(ours, theirs, "model")
                            report(f"{kind} {one.name} as {made} of tp={to_tp},pp={to_pp}", faults)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for form, pp in (("torch_dist", 1), ("torch", 1), ("torch", 2), ("torch_dist", 2)):
            source = folder / "torch_dist-1/iter_0000010" if pp > 1 or form == "torch" else None
            on_ranks(pp, write, "bert", form, 1, pp, source, folder / f"{form}-{pp}", True)
            status, said = steps._run(tpx, "verify", folder / "torch_dist-1", folder / f"{form}-{pp}")
            report(f"bert with FP8 scales: {form} of pp={pp} is the same state", [said] if status else [])
        status, said = steps._run(tpx, "reshard", folder / "torch_dist-1", folder / "out", "--to", "tp=1", "--format", "megatron")
        fits = status == 0 and "TransformerEngine extra states, so FP8 scaling starts over" in said and "cannot store" not in said
        report("bert with FP8 scales: the note about dropped scales", [] if fits else [said])
    with tempfile.TemporaryDirectory() as name:
        data = Path(__file__).parents[2] / "testdata"
        made = subprocess.run(
            [sys.executable, "-P", data / "make/t5_optimizer.py", Path(name, "t5"), "buckets"], capture_output=True, text=True,
            env={**os.environ, "PYTHONPATH": str(Path(__file__).parent)},
        )  # fmt: skip
        status, said = steps._run(tpx, "verify", data / "megatron/t5-optimizer", Path(name, "t5")) if made.returncode == 0 else (1, made.stderr)
        report("t5 in the buckets of the distributed optimizer is the same state as in rank files", [said] if status else [])
    return outcomes.status()
