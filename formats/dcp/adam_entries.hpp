// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/encodings/dcp/draft_chunks.hpp"

#include <vector>

namespace tpx::formats {

/// The entries of a DCP checkpoint for an optimizer, other than moments: for each parameter of `content` with moments,
/// its step and the settings of its group. Settings have the names of PyTorch's AdamW and its schedulers, flattened:
/// "optimizer.param_groups.PARAMETER.lr". Empty without `content.adam`.
std::vector<KnownEntry> adam_entries(const Content& content);

}  // namespace tpx::formats
