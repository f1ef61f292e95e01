// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cmd/compare_members.hpp"

#include <map>
#include <string>
#include <vector>

namespace tpx::cli {

/// The names that the weight of master `name` may have among the numbers of a member.
std::vector<std::string> weights_of_master(const std::string& name);

/// What the master of weight `name` is called in `member`; empty when it has none.
std::string master_of(const std::string& name, const Member& member);

/// Whether `half` keeps a master beside weight `name` of fewer bits, and the other side has full weights and no
/// masters, which a framework without masters continues with.
bool is_rounded(const std::string& name, const Member& half, const Member& full);

/// Tensors that have different names in `a` and in `b` because only one of them says which parameter they are state of,
/// by A's name: those that both store under the same name.
std::map<std::string, std::string> pairs_by_stored_name(const Member& a, const Member& b);

}  // namespace tpx::cli
