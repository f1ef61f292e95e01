// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/checkpoint.hpp"
#include "lib/layout/families.hpp"

namespace tpx::formats::safetensors {

/// For files of ranks that PyTorch wrote, which record neither the number of ranks nor whole shapes: throws Error
/// "tensor 'NAME': ..." if shapes show that files of later ranks are missing; adds a warning if nothing shows that
/// there are none.
void check_lost_shards(Checkpoint& checkpoint, const Families& families, const Config& config);

}  // namespace tpx::formats::safetensors
