// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/checkpoint.hpp"
#include "formats/megatron/rank_files.hpp"
#include "lib/layout/family.hpp"

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
void put_together(Checkpoint& checkpoint, std::span<const Family> families, const Config& config);

}  // namespace tpx::formats
