// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/checkpoint.hpp"
#include "formats/encodings/new_objects.hpp"

namespace tpx::formats {

/// The non-tensor state of a source that is not a DCP checkpoint, as byte entries. A torch.save file is flattened as
/// PyTorch flattens a state dict: one entry, named by its keys, for each value that is neither a dict nor a list of
/// dicts; also the paths of tensors, if names are kept. Other formats get one entry for each key. Throws Error if state
/// contains itself.
NewObjects flattened_state(const Content& content);

}  // namespace tpx::formats
