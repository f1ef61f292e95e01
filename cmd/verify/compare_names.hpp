// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cmd/verify/compared_checkpoint.hpp"

#include <map>
#include <string>
#include <vector>

namespace tpx::cli {

/// Completes each reading with sizes that the other one knows, so that tensors can be compared part by part; if sizes
/// are still unknown, tensors are compared by their plain names. Throws an mpi::AgreedError if these names differ and
/// come from different frameworks.
void make_names_comparable(formats::Source& a, formats::Source& b);

/// The names that the weight of master `name` may have in ComparedCheckpoint::numbers.
std::vector<std::string> weights_of_master(const std::string& name);

/// The name of the master of weight `name` in `member`; empty if there is none.
std::string master_of(const std::string& name, const ComparedCheckpoint& member);

/// The names of masters of `member` that lack a weight, although its format stores weights, and that `other` also has
/// without a weight.
std::vector<std::string> masters_without_weight(const ComparedCheckpoint& member, const ComparedCheckpoint& other);

/// Whether weight `name` is half precision in `half` and fp32 in `full`, which has no masters: a framework without
/// masters continues with the fp32 weights.
bool is_rounded(const std::string& name, const ComparedCheckpoint& half, const ComparedCheckpoint& full);

/// The tensors that `a` and `b` store under the same name, but that have different names for comparison because only
/// one side identifies their parameters. Maps the name in `a` to the name in `b`.
std::map<std::string, std::string> pairs_by_stored_name(const ComparedCheckpoint& a, const ComparedCheckpoint& b);

}  // namespace tpx::cli
