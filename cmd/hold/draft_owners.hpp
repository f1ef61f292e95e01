// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/core/catalogue.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace tpx::cli {

/// The bytes of a piece of a draft.
std::uint64_t payload_of(const Draft& draft, const Piece& piece);

/// For each piece in files of a draft, the piece of the draft in which its first element is.
std::vector<std::uint32_t> owners(const Draft& draft, std::span<const Piece> pieces);

}  // namespace tpx::cli
