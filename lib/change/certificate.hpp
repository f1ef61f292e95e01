// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/change/moves.hpp"

#include <cstdint>
#include <string>

namespace tpx {

/// What was proven about a plan by code that shares nothing with the planner. If `fault` is empty, every element of
/// every target piece has exactly one source, which holds it, and every move is inside its pieces.
struct Certificate {
    std::uint64_t targets = 0;        ///< target pieces checked
    std::uint64_t moves = 0;          ///< moves checked
    std::uint64_t elements = 0;       ///< elements moved
    std::uint64_t bytes_read = 0;     ///< bytes of these elements in the source's dtypes
    std::uint64_t bytes_written = 0;  ///< bytes of these elements in the target's dtypes
    std::uint64_t same_rank = 0;      ///< part of bytes_read whose source and target pieces have the same rank
    std::string fault;                ///< the first violation found; empty: none

    bool holds() const { return fault.empty(); }
    friend bool operator==(const Certificate&, const Certificate&) = default;
};

/// Checks `moves`, in any order. Indices and boxes are not trusted.
Certificate certify(const Side& source, const Side& target, const Moves& moves);

}  // namespace tpx
