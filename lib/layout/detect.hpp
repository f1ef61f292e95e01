// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/core/catalogue.hpp"
#include "lib/layout/layout.hpp"
#include "lib/layout/reading.hpp"
#include "lib/layout/shard_map.hpp"

#include <optional>

namespace tpx {

/// The layout that explains the boxes of every parameter of `catalogue`, cut as `cutting` says: what Megatron's args
/// claim if the boxes agree, else the smallest tp and fsdp that give just these boxes. Replicas (hsdp) show only in the
/// number of ranks that wrote files. Nothing when no layout explains the boxes.
std::optional<Layout> detect_layout(const Catalogue& catalogue, const Reading& reading, const Cutting& cutting);

/// Whether `layout` cuts every parameter into just the boxes of `catalogue`, and each was written by a rank that holds
/// it under `layout`. Several layouts may be consistent: replicas of which only one was stored leave no trace.
bool is_consistent(const Layout& layout, const Catalogue& catalogue, const Reading& reading, const Cutting& cutting);

}  // namespace tpx
