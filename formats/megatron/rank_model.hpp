// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/encodings/torch/archive.hpp"
#include "formats/megatron/rank_files.hpp"
#include "lib/layout/config.hpp"

#include <cstdint>

namespace tpx::formats::megatron {

/// Adds to `directory` the weights of a model_optim_rng.pt, file number `file`: those of "model", or of "model0",
/// "model1", ... Throws Error "tensor 'NAME': ..." if a tensor cannot be copied unchanged, if layers are not numbered
/// from 0, and for unknown entries that are not tensors. Lists extra states that are not empty; only the layers that
/// wrote them can read them.
void read_model(RankDirectory& directory, const torch::Archive& archive, std::uint32_t file, const Config& args);

}  // namespace tpx::formats::megatron
