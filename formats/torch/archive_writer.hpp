// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/torch/archive.hpp"
#include "formats/torch/value.hpp"
#include "lib/core/box.hpp"
#include "lib/core/dtype.hpp"

#include <array>
#include <cstdint>
#include <string>

namespace tpx::torch {

/// The bytes around the payload of a torch.save archive that holds one C-order tensor: prefix, payload, suffix, without
/// gaps. The payload starts at a multiple of 64.
struct TensorFrame {
    std::string prefix;
    std::uint64_t payload = 0;  ///< bytes
    std::string suffix;
    /// Where the payload's CRC-32 (little-endian, as in zip) belongs, from the start of the archive: before the payload
    /// and in the directory. It is 0 there now, as it is for an empty payload.
    std::array<std::uint64_t, 2> crcs{};

    std::uint64_t size() const { return prefix.size() + payload + suffix.size(); }
};

/// The frame of a tensor, its elements little-endian; torch.load(weights_only=True) accepts the archive. Throws Error
/// for dtypes torch has not and for more than 2^62 bytes.
TensorFrame frame_tensor(DType dtype, const Shape& shape);

/// A whole torch.save archive of `root`. The storages that its tensors refer to are taken from `storages`, which is
/// needed only when there are any; throws Error when it lacks one.
std::string write_archive(Value root, const Archive* storages = nullptr);

}  // namespace tpx::torch
