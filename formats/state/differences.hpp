// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/state/node.hpp"

#include <optional>

namespace tpx::formats {

/// What of `node` is not in `first`: mappings are gone through key by key, all else is told whole. Nothing when they
/// are equal.
std::optional<StateNode> differences(const StateNode& node, const StateNode& first);

}  // namespace tpx::formats
