// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/layout/family.hpp"

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

namespace tpx {

/// The hashes, sorted, of all names that the rules of `family` match, with `#` for each number: what MatchableNames
/// compares.
std::vector<std::uint32_t> hash_rule_names(const Family& family);

/// The parts of stored names that rules may match:
/// - the whole name;
/// - the name without its first component, which may be the object that contains the model;
/// - in names of optimizer state, such as "optimizer.state.exp_avg.NAME", each sequence of components, because the role
///   is part of the name, too.
/// If a family's rules match none of them, the family need not be read.
class MatchableNames {
public:
    /// `names` contain `#` for each number, as fold_numbers() returns them.
    explicit MatchableNames(std::span<const std::string> names);

    /// False only if no part has one of `hashes`, which hash_rule_names() returned.
    bool may_match(std::span<const std::uint32_t> hashes) const;

private:
    void add_component_sequences(std::string_view name);

    std::unordered_set<std::uint32_t> hashes_;
};

}  // namespace tpx
