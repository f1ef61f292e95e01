// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/checkpoint.hpp"
#include "lib/core/catalogue.hpp"
#include "lib/layout/config.hpp"

#include <vector>

namespace tpx::formats {

/// The part that each rank of `content.layout` holds of the state of Megatron's distributed optimizer (masters and
/// moments), as pieces of `content.tensors`: the parameters of a rank are laid out in flat buffers (see
/// lay_out_buffer()), and the ranks that hold the same parameters have equal parts of each padded bucket. `args` are
/// the job's. Throws Error if the order of the parameters cannot be derived from `args` and the rules.
std::vector<Piece> buffer_shares(const Content& content, const Config& args);

}  // namespace tpx::formats
