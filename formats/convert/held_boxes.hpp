// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/convert/conversion.hpp"
#include "lib/layout/shard_map.hpp"

#include <vector>

namespace tpx::formats {

/// The boxes of `out.expressed` that the ranks of `target.held` have in memory according to `map`, including replicas.
/// If tensors keep their names, those that the job of `source` did not split stay whole.
std::vector<Piece> held_boxes(const Source& source, const Conversion& out, const Target& target, const ShardMap& map);

}  // namespace tpx::formats
