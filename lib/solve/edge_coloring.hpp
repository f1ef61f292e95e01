// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace tpx {

/// An edge from a sender to a receiver.
struct Link {
    std::uint32_t from = 0;
    std::uint32_t to = 0;
};

/// A coloring of links with the fewest colors: no two links of one color share a sender or a receiver.
struct EdgeColoring {
    std::uint32_t colors = 0;          ///< the most links that one sender or one receiver has (König 1916)
    std::vector<std::uint32_t> color;  ///< of each link
};

/// Colors `links` among `nodes` senders and as many receivers; the same pair may be linked many times.
EdgeColoring color(std::span<const Link> links, std::uint32_t nodes);

}  // namespace tpx
