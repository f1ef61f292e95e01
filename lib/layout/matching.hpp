// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/layout/reading.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <tuple>
#include <vector>

namespace tpx {

/// What a configuration says of a family: no, nothing, or yes.
enum class Verdict { no, silent, yes };

/// A family and a dialect whose rules tensors were matched with.
struct FamilyMatch {
    const Family* family = nullptr;
    const Dialect* dialect = nullptr;
    Verdict verdict = Verdict::silent;
    bool named = false;     ///< the family is the one for models that do not say what they are
    std::size_t asked = 0;  ///< conditions on the configuration, which all hold
    std::vector<Meaning> meanings;
    std::vector<std::uint32_t> unknown;
    std::size_t parameters = 0;
    std::string missing;  ///< a tensor that the family requires and nobody stores

    bool fits() const { return parameters > 0 && missing.empty() && (unknown.empty() || verdict == Verdict::yes); }
    /// Better ones are larger. Of families that fit alike, the one that asks most of the configuration says most, and
    /// then the one with the fewest tensors.
    auto rank() const {
        return std::tuple{fits(), verdict, parameters,
                          named,  asked,   -static_cast<std::ptrdiff_t>(family->tensors.size())};
    }
};

/// What the rules of one dialect say of `tensors`, whatever the configuration.
FamilyMatch match_dialect(const Family& family, const Dialect& dialect, std::span<const Tensor> tensors);

/// The best of `families` and their dialects for `tensors`, if its rules fit them; else an empty one, and `why_not`
/// says which came closest and what it lacks.
FamilyMatch best_match(std::span<const Tensor> tensors, const Families& families, const Config& config,
                       std::string& why_not);

}  // namespace tpx
