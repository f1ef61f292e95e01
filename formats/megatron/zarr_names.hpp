// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

namespace tpx::formats::zarr {

/// Why a tensor cannot have this name, which is also the name of its folder; empty if it can.
std::string_view reject_name(std::string_view name);

/// Whether `name` has the form KEY/shard_OFFSETS_SHAPE, so that the object can be stored.
bool is_object_name(std::string_view name);

}  // namespace tpx::formats::zarr
