// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/encodings/torch/archive.hpp"

namespace tpx::formats {

/// Whether the extra state of a layer (`_extra_state` of TransformerEngine), a value of `archive`, contains nothing: it
/// is None, a tensor without elements, a stream in which torch.save has stored None, or a list of these.
bool is_empty_extra_state(torch::Value value, const torch::Archive& archive);

}  // namespace tpx::formats
