// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/core/catalogue.hpp"
#include "lib/layout/layout.hpp"
#include "lib/layout/reading.hpp"
#include "lib/layout/shard_map.hpp"

#include <optional>

namespace tpx {

/// The layout under which every parameter of `catalogue`, split as `cutting` says, has exactly the stored boxes: the
/// one in Megatron's args if it does, else the one with the smallest tp and fsdp that does. Replicas (hsdp) show only
/// in the number of ranks that wrote files. Nothing if no layout matches.
std::optional<Layout> detect_layout(const Catalogue& catalogue, const Reading& reading, const Cutting& cutting);

/// Whether `layout` splits every parameter into exactly the boxes of `catalogue`, and each was written by a rank that
/// holds it under `layout`. Several layouts may be consistent, because replicas that were not stored leave no trace.
bool is_consistent(const Layout& layout, const Catalogue& catalogue, const Reading& reading, const Cutting& cutting);

}  // namespace tpx
