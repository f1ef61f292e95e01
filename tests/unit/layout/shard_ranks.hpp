// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/layout/shard_map.hpp"

#include <cstdint>
#include <vector>

namespace tpx::test {

/// The ranks that hold a stored shard.
inline std::vector<std::int32_t> ranks_of(const Layout& layout, const Shard& shard) {
    return ShardMap{layout, {}, {}}.ranks(shard, stored_sharing(layout));
}

}  // namespace tpx::test
