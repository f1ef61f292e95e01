// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/checkpoint.hpp"
#include "formats/megatron/rank_files.hpp"
#include "lib/layout/families.hpp"

#include <filesystem>
#include <span>

namespace tpx::formats {

/// Opens a checkpoint of Megatron's legacy format (`--ckpt-format torch`): an `iter_NNNNNNN` or `release` directory
/// with one mp_rank_TT[_PPP][_EEE] for each tensor, pipeline and expert rank, or the root above it. Until
/// assemble_ranks() runs, tensors have the ranks' own names, and the catalogue contains only files. Throws Error if
/// directories are missing or contradict args, and for optimizer state whose parameters cannot be identified.
Checkpoint open_rank_files(const std::filesystem::path& directory_or_root);

/// Assembles the rank files of `checkpoint` into a catalogue of whole tensors with the names of torch_dist; layers are
/// stacked if they are alike. `config` contains the settings that select one of `families`, whose rules define how
/// tensors are split. Copies on several ranks become replicas; a tied output layer becomes a replica of the embedding.
/// Throws Error for tensors that may be split but that no rule describes.
void assemble_ranks(Checkpoint& checkpoint, const Families& families, const Config& config);

/// A root directory: the tracker file and iter_NNNNNNN with one directory for each writing rank of `content.layout`, as
/// Megatron-core 0.16 writes them with `--ckpt-format torch`. Tensors have the names of torch_dist in `content`. If the
/// source has optimizer state, use_distributed_optimizer in args selects the form in which it is written; param_groups,
/// step and schedulers are the source's. RNG states are those that RngStates gives the new ranks. Throws Error for
/// tensors that rank files cannot store, and for incomplete optimizer state.
Draft draft_rank_files(const Content& content);

}  // namespace tpx::formats
