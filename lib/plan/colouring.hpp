// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace tpx {

/// Something that goes from a sender to a receiver.
struct Link {
    std::uint32_t from = 0;
    std::uint32_t to = 0;
};

/// Links in as few colours as can be, no two of one colour from one sender or to one receiver.
struct Colouring {
    std::uint32_t colours = 0;          ///< the most links that one sender or one receiver has (König 1916)
    std::vector<std::uint32_t> colour;  ///< of each link
};

/// Colours `links` among `nodes` senders and as many receivers; the same pair may be linked many times.
Colouring colour(std::span<const Link> links, std::uint32_t nodes);

}  // namespace tpx
