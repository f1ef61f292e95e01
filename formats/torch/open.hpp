// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/checkpoint.hpp"

namespace tpx::formats {

/// Opens one file of torch.save, zip or legacy stream: its tensors are called by the keys on the way to them, joined
/// with
/// '.', and each is one piece; what else is in it is left aside. Throws Error "FILE: ..." when
/// it is malformed, when two tensors would have one name, or for tensors whose bytes are not plain (compressed,
/// big-endian, conjugated or negated).
Checkpoint open_torch_file(const std::filesystem::path& file);

}  // namespace tpx::formats
