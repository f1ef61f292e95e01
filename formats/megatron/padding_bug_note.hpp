// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/checkpoint.hpp"
#include "lib/layout/families.hpp"

#include <span>
#include <string>

namespace tpx::formats::megatron {

/// A note about a bug of Megatron-core 0.15 and 0.16: when they write fully_reshardable, they split the gathered vector
/// of a buffer, which lacks the padding of buckets, at the positions of the padded vector. Empty if no padded bucket is
/// followed by another bucket according to the settings of `checkpoint`.
std::string padding_bug_note(const Checkpoint& checkpoint, const Families& families, const Config& args);

}  // namespace tpx::formats::megatron
