// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/layout/reading.hpp"

#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace tpx {

/// Names of tensors, and which of them are the same but for their numbers.
struct FoldedNames {
    explicit FoldedNames(std::span<const Tensor> tensors);

    std::vector<std::string> distinct;  ///< with `#` for each number, as fold_numbers() makes them
    std::vector<std::uint32_t> of;      ///< which of `distinct` each tensor's name is
};

/// Finds the rule for a name among those of a dialect.
class RuleBook {
public:
    explicit RuleBook(const Dialect& dialect);

    /// What `name`, which folds to `folded`, means. Rules are exact, so they speak before the patterns of roles and of
    /// extras.
    Meaning meaning_of(std::string_view name, const std::string& folded) const;

    /// False only where no name that folds to `folded` means anything: one question for all of a million tensors.
    bool may_know(const std::string& folded) const;

private:
    Meaning by_rule(std::string_view name, const std::string& folded) const;
    const std::vector<const Rule*>* rules_for(const std::string& folded) const;
    std::span<const RolePattern> roles() const;

    const Dialect& dialect_;
    std::unordered_map<std::string, std::vector<const Rule*>> rules_;
};

}  // namespace tpx
