// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/encodings/dcp/draft.hpp"

#include <vector>

namespace tpx::formats {

/// What a DCP checkpoint stores of an optimizer beside its moments: for each parameter of `content` that has moments
/// its step, and the settings of its group as torch's AdamW and its schedulers name them, flattened:
/// "optimizer.param_groups.PARAMETER.lr". Empty without `content.adam`.
std::vector<KnownEntry> adam_entries(const Content& content);

}  // namespace tpx::formats
