// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/core/catalogue.hpp"

#include <cstdint>
#include <vector>

namespace tpx {

/// A box of a tensor that no piece holds.
struct Hole {
    std::uint32_t tensor = 0;
    Box box;
};

/// The boxes that no piece holds: disjoint, sorted by tensor; empty for a complete checkpoint. Two pieces may be
/// disjoint, or equal (replicas). Throws Error "tensor 'NAME': ..." when a piece exceeds its tensor, when two pieces
/// overlap, or when a tensor has more than a thousand holes. Time O(n log n) for n pieces that tile their tensors in
/// any way.
///
/// Readers call it for its errors when they open a checkpoint, and leave the holes to their callers: `inspect` lists
/// them; code that needs all values calls check_no_holes().
std::vector<Hole> find_holes(const Catalogue& catalogue);

/// Throws Error "tensor 'NAME': no file contains [box]" for the first hole.
void check_no_holes(const Catalogue& catalogue);

}  // namespace tpx
