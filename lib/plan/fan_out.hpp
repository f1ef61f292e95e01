// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/plan/fan.hpp"

#include <cstdint>
#include <vector>

namespace tpx {

/// Bytes begin up to end go from one host to another.
struct Hop {
    std::uint32_t from = 0;
    std::uint32_t to = 0;
    std::uint64_t begin = 0;
    std::uint64_t end = 0;
};

/// Who sends which bytes to whom, so that each host sends just its shares, each needer gets each byte once, and for
/// each byte following `from` back leads to a holder. About as many hops as needers and shares.
std::vector<Hop> fan_out(const Fan& fan);

}  // namespace tpx
