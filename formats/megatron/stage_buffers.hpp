// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/megatron/buffers.hpp"
#include "formats/megatron/rank_parts.hpp"
#include "lib/layout/config.hpp"
#include "lib/layout/layout.hpp"

#include <vector>

namespace tpx::formats::megatron {

/// The parameters of one buffer in module order.
using Buffer = std::vector<const RankParameter*>;

/// The parameters of one optimizer in module order: all of them or, if optimizers are `split`, only those of experts or
/// of all other parameters. A parameter with two names in the model is included once, under the second name.
std::vector<const RankParameter*> trained_parameters(const std::vector<RankParameter>& all, bool split, bool experts);

/// The buffers of a rank's parameters, one for each model chunk and dtype; if optimizers are `split`, only those of
/// experts or of all other parameters. The parameters must outlive the buffers.
std::vector<Buffer> buffers_of(const std::vector<RankParameter>& all, bool split, bool experts);

/// Where the parameters of a buffer of stage `stage` are.
BufferLayout places_of(const Buffer& buffer, const Config& args, const Layout& layout, int stage, bool experts);

}  // namespace tpx::formats::megatron
