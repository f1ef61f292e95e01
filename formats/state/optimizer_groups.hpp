// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/core/catalogue.hpp"

#include <string>
#include <vector>

namespace tpx::formats {

/// A group of parameters of an optimizer's state_dict(), which DCP spreads over objects "ROOT.param_groups.N.KEY".
struct OptimizerGroup {
    std::string root;                 ///< "optim"
    std::string prefix;               ///< of its objects: "optim.param_groups.0."
    std::vector<std::string> params;  ///< names as in "ROOT.state.NAME.exp_avg", which may be numbers
    bool numbered = false;            ///< whether they are: parameters are only counted
};

/// The groups that say which parameters they have, by root and number. In the flattened form of
/// torch.distributed.checkpoint.state_dict they do not: each parameter has objects of its own. Reads one object a
/// group; throws Error when it is malformed.
std::vector<OptimizerGroup> optimizer_groups(const Catalogue& catalogue);

}  // namespace tpx::formats
