// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/checkpoint.hpp"

#include <string>
#include <vector>

namespace tpx::formats {

/// What a DCP checkpoint holds of an optimizer beside its moments, an archive each.
struct AdamEntry {
    std::string name;
    std::string archive;
    bool tensor = false;  ///< a tensor of one f32, not an object
};

/// For each parameter of `content` that has moments its step, and the settings of its group as torch's AdamW and its
/// schedulers name them, flattened: "optimizer.param_groups.PARAMETER.lr". Empty without `content.adam`.
std::vector<AdamEntry> adam_entries(const Content& content);

}  // namespace tpx::formats
