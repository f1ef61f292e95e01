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
struct StateOfParameter {
    std::string name;
    std::int64_t weight = -1;              ///< -1: none is stored
    std::map<Role, std::uint32_t> states;  ///< by role: master, exp_avg, exp_avg_sq, step
};

/// What belongs together in a checkpoint's optimizer.
struct OptimizerPairs {
    std::vector<StateOfParameter> parameters;  ///< those with state, by name
    std::vector<std::string> faults;           ///< a line each: state of no weight, of another shape, or missing
    std::vector<std::string> stateless;        ///< stored names of weights without any state
    std::vector<std::string> steps;            ///< that the groups of parameters tell, each once, ascending
};

/// Puts weights, masters and moments of `source`, whose canonical tensors are given, together by parameter, and checks
/// that every parameter has what others have. Where the format stores no weights beside masters (ZeRO 3), none are
/// missed. Throws Error when optimizer state is there of which it is not known what it belongs to.
OptimizerPairs pair_states(const Source& source, const Canonical& canonical);

}  // namespace tpx::formats
