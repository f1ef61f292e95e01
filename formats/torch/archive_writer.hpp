// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/torch/value.hpp"
#include "lib/core/box.hpp"
#include "lib/core/dtype.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace tpx::torch {

/// The bytes around the payload of a torch.save archive that holds one C-order tensor:
/// prefix, payload, suffix, without gaps. The payload starts at a multiple of 64.
struct TensorFrame {
    std::string prefix;
    std::uint64_t payload = 0;  ///< bytes
    std::string suffix;
    /// Where the payload's CRC-32 (little-endian, as in zip) belongs, from the start of the archive; it is 0 there now.
    std::vector<std::uint64_t> crcs;

    std::uint64_t size() const { return prefix.size() + payload + suffix.size(); }
};

/// The frame of a tensor; torch.load(weights_only=True) accepts the archive. Throws Error for dtypes torch has not and
/// for volumes beyond 2^63-1 bytes.
TensorFrame frame_tensor(DType dtype, const Shape& shape);

/// A whole torch.save archive of a tree without tensors.
std::string write_archive(Value root);

}  // namespace tpx::torch
