// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/checkpoint.hpp"
#include "lib/layout/families.hpp"

namespace tpx::formats::safetensors {

/// For shards that PyTorch wrote, which record neither how many there are nor whole shapes. Throws Error
/// "tensor 'NAME': ..." if an axis that is split among ranks is shorter than the configuration or axes that are not
/// split imply. Adds a warning if nothing shows that the last shards are present.
void check_lost_shards(Checkpoint& checkpoint, const Families& families, const Config& config);

}  // namespace tpx::formats::safetensors
