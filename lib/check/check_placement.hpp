// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/check/facts.hpp"

#include <cstdint>

namespace tpx {

/// Throws Error unless the blocks are as tpx-plan(5) defines them, each rank has a device of its own on the host of its
/// block, the stored number of crossing bytes is correct, and the prices prove that no assignment of blocks costs less.
/// Returns how many pairs of block and host were compared.
std::uint64_t check_placement(const Facts& facts);

}  // namespace tpx
