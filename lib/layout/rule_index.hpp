// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/layout/reading.hpp"

#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace tpx {

/// The names of tensors, and which of them differ only in their numbers.
struct FoldedNames {
    explicit FoldedNames(std::span<const Tensor> tensors);

    std::vector<std::string> distinct;  ///< with `#` for each number, as fold_numbers() makes them
    std::vector<std::uint32_t> of;      ///< for each tensor, the index of its name in `distinct`
};

/// Finds the rule for a name among those of a dialect.
class RuleIndex {
public:
    explicit RuleIndex(const Dialect& dialect);

    /// What `name`, which folds to `folded`, means. Rules are exact, so they come before the patterns of roles and of
    /// extras.
    Meaning meaning_of(std::string_view name, const std::string& folded) const;

    /// False only if no name that folds to `folded` has a meaning. A million tensors may fold to one name.
    bool may_match(const std::string& folded) const;

private:
    Meaning by_rule(std::string_view name, const std::string& folded) const;
    const std::vector<const Rule*>* rules_for(const std::string& folded) const;
    std::span<const RolePattern> roles() const;

    const Dialect& dialect_;
    std::unordered_map<std::string, std::vector<const Rule*>> rules_;
};

}  // namespace tpx
