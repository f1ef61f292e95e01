// SPDX-License-Identifier: Apache-2.0
#include "cmd/verify/ignored_roles.hpp"

#include "cmd/verify/compare.hpp"
#include "formats/values/value_paths.hpp"

#include <algorithm>

namespace tpx::cli {
namespace {

/// Whether a role is optimizer state. Roles that are not listed are states of optimizers other than Adam.
bool is_optimizer_state(const std::string& role) {
    return role != "weight" && role != "extra" && role != "copy" &&
           (std::ranges::find(formats::value_roles, role) == formats::value_roles.end() || role == "settings" ||
            role == "step");
}

}  // namespace

bool is_ignored(const std::string& role, const CompareOptions& options) {
    if (role == "weight") return false;
    // Masters are read all the same: in a checkpoint without weights, they are the weights.
    if (options.weights_only) return role != "copy" && role != "master";
    const bool listed = std::ranges::find(ignorable_roles, role) != ignorable_roles.end();
    const std::string word = listed ? role : "state";
    return options.ignored.contains(word) || (options.ignored.contains("optimizer") && is_optimizer_state(role));
}

}  // namespace tpx::cli
