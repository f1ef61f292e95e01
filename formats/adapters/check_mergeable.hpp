// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/adapters/adapter.hpp"
#include "formats/source.hpp"

#include <filesystem>

namespace tpx::formats {

/// Throws Error if `directory` is an adapter that Megatron Bridge saved, whose names and fused layers are not those
/// that PEFT stores.
void reject_bridge_adapter(const std::filesystem::path& directory);

/// Throws Error if `adapter` cannot be merged, or if `source` has state that depends on the unmerged weights.
void check_mergeable(const Source& source, const Adapter& adapter);

}  // namespace tpx::formats
