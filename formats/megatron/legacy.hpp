// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/checkpoint.hpp"
#include "formats/megatron/rank_files.hpp"
#include "lib/layout/families.hpp"

#include <filesystem>
#include <span>

namespace tpx::formats {

/// Opens a checkpoint of Megatron's legacy format (`--ckpt-format torch`): an `iter_NNNNNNN` or `release` directory
/// with one mp_rank_TT[_PPP][_EEE] for each tensor, pipeline and expert rank, or the root above it. Tensors carry the
/// ranks' own names until put_together() has run; the catalogue has only files. Throws Error when directories are
/// missing, when they contradict args, and for optimizer state whose parameters cannot be told.
Checkpoint open_rank_files(const std::filesystem::path& directory_or_root);

/// Makes of the rank files of `checkpoint` a catalogue of whole tensors, named as torch_dist names them: layers are
/// stacked where they are alike. `config` has the settings by which a family is found among `families`, whose rules
/// tell how tensors are cut. Copies on several ranks become replicas; a tied output layer is one of the embedding.
/// Throws Error for tensors that no rule explains, where they may be cut.
void put_together(Checkpoint& checkpoint, const Families& families, const Config& config);

/// A root directory: the tracker file and iter_NNNNNNN with one directory for each writing rank of `content.layout`, as
/// Megatron-core 0.16 writes them with `--ckpt-format torch`. Tensors have the names of torch_dist in `content`. Where
/// the source has optimizer state, it is written as args' use_distributed_optimizer says; groups of parameters, step
/// and schedulers are the source's. RNG states are a rank's own: they are kept where the source has rank files of the
/// same degrees. Throws Error for tensors that rank files have no place for, and for optimizer state that is not whole.
Draft draft_rank_files(const Content& content);

}  // namespace tpx::formats
