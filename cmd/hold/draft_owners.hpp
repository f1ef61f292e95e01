// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/core/catalogue.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace tpx::cli {

/// The size in bytes of the elements of a piece of a draft.
std::uint64_t payload_of(const Draft& draft, const Piece& piece);

/// For each of `pieces`, which are located in files of the draft, the number of the draft's piece that contains its
/// first element.
std::vector<std::uint32_t> owners(const Draft& draft, std::span<const Piece> pieces);

}  // namespace tpx::cli
