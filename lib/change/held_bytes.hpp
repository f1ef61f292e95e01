// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/layout/layout.hpp"
#include "lib/layout/model_state.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace tpx {

/// The bytes that the ranks of a layout hold, in all roles.
struct HeldBytes {
    std::vector<std::uint64_t> ranks;  ///< of each rank
    /// For each group, a number for each stage of another layout: the bytes that the group holds of the layers that are
    /// on that stage there, counted once even if several ranks hold them. One more number is for tensors that are on
    /// both end stages there.
    std::vector<std::vector<std::uint64_t>> groups;
};

/// The bytes that the ranks of `layout` hold, each alone and in groups. `group_of_rank` contains the group of each
/// rank, less than `groups`, or -1 for none. The stages of HeldBytes::groups are those of `other`. The time grows with
/// the cuts of each tensor and the ranks of one stage.
HeldBytes held_bytes(const ModelState& model, const Layout& layout, const Layout& other,
                     std::span<const std::int32_t> group_of_rank, std::size_t groups);

}  // namespace tpx
