// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/layout/reading.hpp"

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tpx {

/// `name` with "#" in place of the numbers of its layer and expert. Other numbers, such as those of the parts of a
/// layer, distinguish kinds of tensors and stay. Names of one kind have the same result.
std::string kind_of_name(std::string_view name);

/// How well the rules of a family match tensors, by their names alone. Each kind of name counts once, and is known only
/// if rules match all of its names that are looked up.
struct FamilyFit {
    const Family* family = nullptr;
    const Dialect* dialect = nullptr;
    std::size_t known = 0;
    std::vector<std::string> unknown;  ///< one name of each kind that no rule matches
    std::size_t unexplained = 0;       ///< names that no rule matches, of those that were looked up
    std::vector<std::string> missing;  ///< stored names of required tensors that are absent

    std::size_t total() const { return known + unknown.size(); }
    /// "family 'llama' (hf names) matches 11 of 12 kinds of names, but not 'a.b.c'".
    std::string describe() const;
};

/// The fit of `family` with the dialect that fits best.
FamilyFit fit_family(const Family& family, std::span<const Tensor> tensors);

/// The family that fits best, if it matches at least half of the kinds of names.
std::optional<FamilyFit> nearest_family(std::span<const Tensor> tensors, const Families& families);

}  // namespace tpx
