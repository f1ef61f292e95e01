// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/checkpoint.hpp"
#include "formats/encodings/new_entries.hpp"

namespace tpx::formats {

/// The state beside the tensors of a source that is no DCP checkpoint, as byte entries. Of a torch.save file, a value
/// each that is no dict and no list of dicts, named by the keys on the way to it, as PyTorch flattens a state dict; and
/// where names stay, the paths of tensors. Of others, one for each key. Throws Error when state contains itself.
NewObjects flattened_state(const Content& content);

}  // namespace tpx::formats
