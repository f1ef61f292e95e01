// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/checkpoint.hpp"
#include "formats/encodings/torch/value.hpp"

namespace tpx::formats::megatron {

/// `common` with the param_groups that Megatron creates for `content.adam`, one with and one without weight decay, and
/// if experts have their own optimizer (`two`), one for experts. If `common` has no schedule, adds one that starts now.
/// Returns `common` itself if `content.adam` is unset.
torch::Value with_adam(torch::Document& document, torch::Value common, const Content& content, bool two);

}  // namespace tpx::formats::megatron
