// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/core/catalogue.hpp"

#include <cstdint>
#include <vector>

namespace tpx::cli {

/// The part of a draft that one host writes: the files marked in `files`, which get the numbers `numbers`, by their
/// numbers in `all`. Precondition: no marked file has copies.
Draft part_of_draft(const Draft& all, const std::vector<bool>& files, std::vector<std::uint32_t>& numbers);

}  // namespace tpx::cli
