// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/state/state_node.hpp"

#include <optional>

namespace tpx::formats {

/// The part of `node` that differs from `first`; unset if they are equal. Mappings are compared key by key; other nodes
/// that differ are returned whole.
std::optional<StateNode> differences(const StateNode& node, const StateNode& first);

}  // namespace tpx::formats
