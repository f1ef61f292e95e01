// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cmd/verify/compare_members.hpp"

#include <map>
#include <string>
#include <vector>

namespace tpx::cli {

/// Completes each reading with sizes that the other one knows, so that tensors can be compared part by part; where
/// sizes are still unknown, tensors are compared by their plain names. Throws an mpi::AgreedError if these are of
/// different frameworks.
void make_names_comparable(formats::Source& a, formats::Source& b);

/// The names that the weight of master `name` may have among the numbers of a member.
std::vector<std::string> weights_of_master(const std::string& name);

/// What the master of weight `name` is called in `member`; empty when it has none.
std::string master_of(const std::string& name, const Member& member);

/// The masters of `member` without a weight, by name, where its format stores weights beside masters and `other` has no
/// weight either, since it stores masters only.
std::vector<std::string> masters_without_weight(const Member& member, const Member& other);

/// Whether `half` keeps a master beside weight `name` of fewer bits, and the other side has full weights and no
/// masters, which a framework without masters continues with.
bool is_rounded(const std::string& name, const Member& half, const Member& full);

/// Tensors that have different names in `a` and in `b` because only one of them says which parameter they are state of,
/// by A's name: those that both store under the same name.
std::map<std::string, std::string> pairs_by_stored_name(const Member& a, const Member& b);

}  // namespace tpx::cli
