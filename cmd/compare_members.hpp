// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cmd/digesting.hpp"

#include <cstddef>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace tpx::cli {

/// One of two checkpoints that are compared.
struct Member {
    formats::Source* source;
    Digested digested;
    std::map<std::string, std::size_t> numbers;  ///< canonical tensors by what they are compared by
    std::set<std::string> roles;
    std::vector<std::string> damaged;
};

/// Reads all of `source`. Its tensors are compared by their canonical names; where sizes to take them apart are not
/// known, or no rules know the model, by role and parameter. Collective.
Member read_member(const mpi::Comm& comm, formats::Source& source);

}  // namespace tpx::cli
