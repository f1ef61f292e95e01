// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/core/catalogue.hpp"

#include <string>
#include <vector>

namespace tpx::formats {

/// A group of parameters of an optimizer's state_dict(), which DCP stores as objects "ROOT.param_groups.N.KEY".
struct OptimizerGroup {
    std::string root;                 ///< "optim"
    std::string prefix;               ///< of its objects: "optim.param_groups.0."
    std::vector<std::string> params;  ///< names as in "ROOT.state.NAME.exp_avg", which may be numbers
    bool numbered = false;            ///< whether `params` are numbers
};

/// The groups that list their parameters, sorted by root and number. In the flattened form of
/// torch.distributed.checkpoint.state_dict groups do not: each parameter has its own objects. Reads one object per
/// group; throws Error if it is malformed.
std::vector<OptimizerGroup> optimizer_groups(const Catalogue& catalogue);

}  // namespace tpx::formats
