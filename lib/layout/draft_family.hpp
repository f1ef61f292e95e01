// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/core/catalogue.hpp"
#include "lib/layout/config.hpp"

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tpx {

/// A rules file for a model of an unknown family.
struct FamilyDraft {
    std::string toml;                ///< without the comment that introduces it
    std::vector<std::string> notes;  ///< what a person must review, one line each
};

/// Drafts a family called `name` from names, shapes and `config`, a config.json. Numbers in names become layers and
/// experts. Sizes become factors, named by the keys of `config` that have the same value. Module names such as q_proj
/// or w2 determine which axis tensor parallelism splits. Other tensors are replicated; if `cut` is false, all tensors
/// are.
FamilyDraft draft_family(const std::string& name, std::span<const Tensor> tensors, const Config& config,
                         bool cut = true);

}  // namespace tpx
