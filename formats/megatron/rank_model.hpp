// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/encodings/torch/archive.hpp"
#include "formats/megatron/rank_files.hpp"
#include "lib/layout/config.hpp"

#include <cstdint>

namespace tpx::formats::megatron {

/// Fills `directory` with the weights of a model_optim_rng.pt, file number `file`: those of "model", or of "model0",
/// "model1", ... Throws Error "tensor 'NAME': ..." when one cannot be moved as it is, when layers are not numbered from
/// 0, and for entries that are neither tensors nor known to be none. Extra states, which only the layer that wrote them
/// can read, are counted where they have content.
void read_model(RankDirectory& directory, const torch::Archive& archive, std::uint32_t file, const Config& args);

}  // namespace tpx::formats::megatron
