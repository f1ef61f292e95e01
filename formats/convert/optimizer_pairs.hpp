// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/convert/canonical.hpp"
#include "lib/state/role.hpp"

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace tpx::formats {

/// A parameter and its optimizer state, as indices into canonical tensors.
struct ParameterState {
    std::string name;
    std::int64_t weight = -1;              ///< -1: not stored
    std::map<Role, std::uint32_t> states;  ///< by role: master, exp_avg, exp_avg_sq, step
};

/// The parameters and optimizer state of a checkpoint, matched.
struct OptimizerPairs {
    std::vector<ParameterState> parameters;  ///< those with state, by name
    std::vector<std::string> faults;         ///< a line each: state without a weight, of the wrong shape, or missing
    std::vector<std::string> stateless;      ///< stored names of weights without any state
    std::vector<std::string> steps;          ///< in the parameter groups, without duplicates, ascending
};

/// Groups weights, masters and moments of `source` by parameter and checks that all parameters have the same kinds of
/// state. `canonical` are the canonical tensors of `source`. If the format stores masters without weights (ZeRO 3),
/// missing weights are not faults. Throws Error for optimizer state whose parameters are unknown.
OptimizerPairs pair_states(const Source& source, const CanonicalTensors& canonical);

}  // namespace tpx::formats
