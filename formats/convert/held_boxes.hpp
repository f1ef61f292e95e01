// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/convert/conversion.hpp"
#include "lib/layout/shard_map.hpp"

#include <vector>

namespace tpx::formats {

/// The boxes of `out.expressed` that the ranks of `target.held` have in memory, replicas included: those of `map`. If
/// tensors keep their names, those that the ranks of `source` left whole are left whole.
std::vector<Piece> held_boxes(const Source& source, const Conversion& out, const Target& target, const ShardMap& map);

}  // namespace tpx::formats
