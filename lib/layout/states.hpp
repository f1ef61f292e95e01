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

/// Weights and the state that Adam keeps of them, in the order in which they are written.
inline constexpr std::array state_roles{Role::weight, Role::master, Role::exp_avg, Role::exp_avg_sq};

/// By role.
using States = std::map<Role, Occurrences>;

NameIndices indices_of(Place place);

/// The pattern by which `dialect` writes state of `role`: of those whose tag holds the last, else the first without
/// one. Throws Error when it has none.
const RolePattern& pattern_of(const Dialect& dialect, Role role, const std::set<std::string>& tags);

/// What occurs of each role, of weights alone if `dialect` has no names for others. The names of all other tensors go
/// to `left_out`, but for steps that another framework counts elsewhere.
States states_of(const Reading& source, std::span<const Tensor> tensors, const Dialect& dialect,
                 std::vector<std::string>& left_out);

/// What occurs of each role of `model`, which is one of `family`. Buffers have no state.
States states_of(const ModelState& model, const Family& family);

/// Masters become the weights where a source has no others (ZeRO 3), and of a dialect that has no names for masters;
/// weights become masters where these are wanted and the source has none. What comes from where goes to `out.copies`.
void settle_masters(const Family& family, const Dialect& dialect, bool wanted, States& states, Expressed& out);

}  // namespace tpx
