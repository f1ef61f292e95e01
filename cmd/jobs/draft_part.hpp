// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/core/catalogue.hpp"

#include <cstdint>
#include <vector>

namespace tpx::cli {

/// The part of the draft `all` that one host writes: the files that `files` marks. Sets `numbers[k]` to the number in
/// this part of marked file k of `all`. Precondition: no marked file has copies.
Draft part_of_draft(const Draft& all, const std::vector<bool>& files, std::vector<std::uint32_t>& numbers);

}  // namespace tpx::cli
