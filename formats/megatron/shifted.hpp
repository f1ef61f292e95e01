// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/checkpoint.hpp"
#include "lib/layout/families.hpp"

#include <span>
#include <string>

namespace tpx::formats::megatron {

/// A note on a defect: Megatron-core 0.15 and 0.16 cut the gathered vector of a buffer, which lacks the padding of
/// buckets, at places of the padded one when they write fully_reshardable. Empty where the settings of `checkpoint`
/// make no bucket that is padded and followed by another.
std::string shifted_by_padding(const Checkpoint& checkpoint, const Families& families, const Config& args);

}  // namespace tpx::formats::megatron
