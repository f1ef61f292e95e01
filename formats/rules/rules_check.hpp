// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/source.hpp"

#include <filesystem>
#include <string>
#include <vector>

namespace tpx::formats {

/// How well a rules file explains a checkpoint.
struct RulesCheck {
    std::string family;
    std::string dialect;               ///< whose names match best; empty: none match
    std::size_t tensors = 0;           ///< of the checkpoint
    std::size_t explained = 0;         ///< of these, tensors that a rule matches
    std::vector<std::string> unknown;  ///< one name of each kind that no rule matches
    std::vector<std::string> missing;  ///< names of tensors that the family requires and the checkpoint lacks
    std::string unsized;               ///< factors whose sizes are unknown
    std::string fault;                 ///< why the checkpoint cannot be read by the rules; empty if it can

    bool passes() const { return unknown.empty() && missing.empty() && unsized.empty() && fault.empty(); }
};

/// Reads the checkpoint at `path` by the rules of `file` alone, which may extend known families and those of `others`.
/// Throws Error if `file` is not a valid rules file, or if the checkpoint cannot be opened.
RulesCheck check_rules(const std::filesystem::path& file, const std::vector<std::filesystem::path>& others,
                       const std::filesystem::path& path, const Config& config);

}  // namespace tpx::formats
