// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/change/moves.hpp"

#include <cstdint>
#include <string>

namespace tpx {

/// What was proven about a plan, by code that shares nothing with the planner. When `fault` is empty: every element of
/// every target piece has exactly one source, which holds it, and no move leaves its pieces.
struct Certificate {
    std::uint64_t targets = 0;        ///< target pieces checked
    std::uint64_t moves = 0;          ///< moves checked
    std::uint64_t elements = 0;       ///< moved, all of them
    std::uint64_t bytes_read = 0;     ///< moved, in the source's dtypes
    std::uint64_t bytes_written = 0;  ///< moved, in the target's dtypes
    std::uint64_t same_rank = 0;      ///< of bytes_read, those whose source and target piece have the same rank
    std::string fault;                ///< the first thing that does not hold; empty: everything does

    bool holds() const { return fault.empty(); }
    friend bool operator==(const Certificate&, const Certificate&) = default;
};

/// Checks `plan`, which may be anything: indices and boxes are not trusted. Works in any order of moves.
Certificate certify(const Side& source, const Side& target, const Moves& moves);

}  // namespace tpx
