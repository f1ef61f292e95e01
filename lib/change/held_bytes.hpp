// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/layout/layout.hpp"
#include "lib/layout/model.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace tpx {

/// Bytes that the ranks of a layout hold, all roles.
struct HeldBytes {
    std::vector<std::uint64_t> ranks;  ///< of each rank
    /// Of each group, what several of its ranks hold counted once: a number for each stage of another layout, of the
    /// layers that are there on that stage. The last of them is for what is there on both ends.
    std::vector<std::vector<std::uint64_t>> groups;
};

/// What the ranks of `layout` hold, each alone and in the groups of `group_of_rank`, which are less than `groups`; -1:
/// in none. The stages are those of `other`. Takes time with the cuts of each tensor and the ranks of one stage.
HeldBytes held_bytes(const ModelState& model, const Layout& layout, const Layout& other,
                     std::span<const std::int32_t> group_of_rank, std::size_t groups);

}  // namespace tpx
