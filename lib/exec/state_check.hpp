// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/change/moves.hpp"
#include "lib/core/catalogue.hpp"
#include "lib/exec/exec_options.hpp"
#include "lib/exec/mpi.hpp"

#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <vector>

namespace tpx {

/// What to check in a tensor of optimizer state, whose elements are floating-point numbers.
struct StateCheck {
    std::uint32_t tensor = 0;
    std::optional<std::uint32_t> weight;  ///< of the same shape; elements rounded to its dtype must equal it
    bool squares = false;                 ///< no element may be negative
};

/// What was found in a tensor of optimizer state.
struct StateFacts {
    static constexpr std::uint64_t none = std::numeric_limits<std::uint64_t>::max();

    std::uint64_t elements = 0;
    std::uint64_t misses = 0;      ///< elements that do not round to the weight's
    std::uint64_t negative = 0;    ///< negative elements, if `squares` was set
    std::uint64_t not_finite = 0;  ///< infinities and NaN
    std::uint64_t first = none;    ///< row-major position of the first of these
    double value = 0;              ///< the element at `first`
    double weight = 0;             ///< the weight's element at `first`
    double farthest = 0;           ///< largest distance of a miss from its weight
    double largest = 0;            ///< largest absolute value of the weight or, without a weight, of the elements
};

/// Reads the tensors that `checks` name, each once, and their weights, in slabs, so that memory stays within
/// `options.memory`. Collective; all ranks get the result. Precondition: dtypes are f64, f32, f16 or bf16.
std::vector<StateFacts> check_states(const mpi::Comm& comm, const Side& side, std::span<const SourceFile> files,
                                     std::span<const StateCheck> checks, const ExecOptions& options);

}  // namespace tpx
