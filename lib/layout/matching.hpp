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

/// Whether a configuration selects a family: no, unknown, or yes.
enum class Verdict { no, unknown, yes };

/// How tensors match the rules of a dialect of a family.
struct FamilyMatch {
    const Family* family = nullptr;
    const Dialect* dialect = nullptr;
    Verdict verdict = Verdict::unknown;
    bool named = false;     ///< the family's rules have conditions on configurations (detect) for this dialect
    std::size_t asked = 0;  ///< the number of conditions on Megatron's args, all of which hold
    std::vector<Meaning> meanings;
    std::vector<std::uint32_t> unknown;
    std::size_t parameters = 0;
    std::string missing;  ///< a tensor that the family requires and the checkpoint lacks

    bool fits() const { return parameters > 0 && missing.empty() && (unknown.empty() || verdict == Verdict::yes); }
    /// Better matches are larger. Of families that fit equally well, the one with the most conditions on the
    /// configuration is the most specific, then the one with the fewest tensors.
    auto rank() const {
        return std::tuple{fits(), verdict, parameters,
                          named,  asked,   -static_cast<std::ptrdiff_t>(family->tensors.size())};
    }
};

/// How `tensors` match the rules of one dialect, whatever the configuration.
FamilyMatch match_dialect(const Family& family, const Dialect& dialect, std::span<const Tensor> tensors);

/// The best match of `tensors` among the dialects of `families`, if its rules fit; else an empty match, and `why_not`
/// says which family came closest and what it lacks.
FamilyMatch best_match(std::span<const Tensor> tensors, const Families& families, const Config& config,
                       std::string& why_not);

}  // namespace tpx
