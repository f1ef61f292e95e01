// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/checkpoint.hpp"
#include "formats/encodings/torch/value.hpp"

namespace tpx::formats::megatron {

/// `common` with the groups of parameters that Megatron makes for `content.adam`, one with and one without weight
/// decay, of experts too where `two` says that these have an optimizer of their own; and a schedule that begins anew.
/// `common` itself without `content.adam`.
torch::Value with_adam(torch::Document& document, torch::Value common, const Content& content, bool two);

}  // namespace tpx::formats::megatron
