// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/layout/express.hpp"
#include "lib/layout/occurrences.hpp"

#include <array>
#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tpx {

/// Weights and the state that Adam keeps for them, in the order in which they are written.
inline constexpr std::array state_roles{Role::weight, Role::master, Role::exp_avg, Role::exp_avg_sq};

/// By role.
using States = std::map<Role, Occurrences>;

NameIndices indices_of(Place place);

/// The pattern by which `dialect` writes state of `role`: the last one whose tag is in `tags`; if there is none, the
/// first one without a tag. Throws Error if the dialect has neither.
const RolePattern& pattern_of(const Dialect& dialect, Role role, const std::set<std::string>& tags);

/// The occurrences of each role, or of weights alone if `dialect` has no names for others. The names of all other
/// tensors are added to `dropped_names`, except steps if the dialect has names for optimizer state.
States states_of(const Reading& source, std::span<const Tensor> tensors, const Dialect& dialect,
                 std::vector<std::string>& dropped_names);

/// The occurrences of each role of `model`, a model of `family`. Buffers have no optimizer state.
States states_of(const ModelState& model, const Family& family);

/// Masters become the weights if the source has no other weights (ZeRO 3) or `dialect` has no names for masters;
/// weights become masters if these are `wanted` and the source has none. Records the origin of the copies in
/// `out.copies`.
void resolve_masters(const Family& family, const Dialect& dialect, bool wanted, States& states, ExpressedState& out);

}  // namespace tpx
