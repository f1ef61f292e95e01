// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/core/catalogue.hpp"
#include "lib/layout/config.hpp"

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tpx {

/// A file for --rules that describes a model of no known family.
struct FamilyDraft {
    std::string toml;                ///< without the comment that introduces it
    std::vector<std::string> notes;  ///< what a person must judge, a line each
};

/// Drafts a family called `name` from names, shapes and `config`, a config.json: numbers in names become layers and
/// experts, sizes become factors by the keys of the configuration that have them, and words such as q_proj or w2 say
/// which axis tensor parallelism cuts. What no word speaks of is replicated. With `cut` false, everything is.
FamilyDraft draft_family(const std::string& name, std::span<const Tensor> tensors, const Config& config,
                         bool cut = true);

}  // namespace tpx
