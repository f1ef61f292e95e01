// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/conversion.hpp"
#include "lib/exec/mpi.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace tpx::cli {

/// How the states of two checkpoints compare, whatever their formats, layouts and dialects.
struct Comparison {
    struct Difference {
        std::string tensor;  ///< as A stores it, or B if A has none
        std::string stored_a;
        std::string stored_b;
        std::string cause;  ///< with numbers: the first index that differs and both values, or both shapes
    };
    std::vector<Difference> differences;
    std::vector<std::string> notes;  ///< what was not compared, and why
    std::uint64_t compared = 0;      ///< canonical tensors
    std::uint64_t bytes = 0;
    std::string state_a;
    std::string state_b;
};

/// Compares all tensors of `a` and `b`. Roles that one of them lacks as a whole (optimizer state beside bare weights)
/// are noted, not compared. Weights that one of them has in half precision beside masters, and the other in single
/// precision without, are compared as masters, and a note counts them; weights that one of them has as masters only
/// must be what these round to. With `cast`, tensors whose dtypes differ are compared value by value, after casting A's
/// to B's dtype. Collective.
Comparison compare(const mpi::Comm& comm, formats::Source& a, formats::Source& b, bool cast);

}  // namespace tpx::cli
