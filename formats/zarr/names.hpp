// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

namespace tpx::formats::zarr {

/// Why no array can have this name, which is that of its folder; empty if one can.
std::string_view reject_name(std::string_view name);

/// Whether an object can have this name: KEY/shard_OFFSETS_SHAPE.
bool is_object_name(std::string_view name);

}  // namespace tpx::formats::zarr
