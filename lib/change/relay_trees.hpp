// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/change/multicast.hpp"

#include <cstdint>
#include <vector>

namespace tpx {

/// One host sends bytes to another.
struct Hop {
    std::uint32_t from = 0;
    std::uint32_t to = 0;
    std::uint32_t depth = 0;  ///< how many hosts forwarded the bytes so far, including `from`; 0: `from` holds them

    friend bool operator==(const Hop&, const Hop&) = default;
};

/// How the bytes of a multicast from `begin` up to `end` reach every host that needs them.
struct RelayTree {
    std::uint64_t begin = 0;
    std::uint64_t end = 0;
    std::vector<Hop> hops;  ///< by depth, so that a host receives before it sends
};

/// The trees of `multicast`, which cover its bytes in order. Every host sends exactly its shares, and every needer
/// receives each byte once.
std::vector<RelayTree> relay_trees(const Multicast& multicast);

}  // namespace tpx
