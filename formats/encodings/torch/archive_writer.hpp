// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/encodings/torch/archive.hpp"
#include "formats/encodings/torch/value.hpp"
#include "lib/core/box.hpp"
#include "lib/core/dtype.hpp"

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

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

/// Bytes of storages, by key.
using Holes = std::map<std::string, std::uint64_t, std::less<>>;

/// The bytes of a torch.save archive around storages that someone else writes.
struct ArchiveFrame {
    struct Hole {
        std::uint64_t offset = 0;  ///< from the start of the archive, where it is a multiple of 64, or of the stream
        std::uint64_t bytes = 0;
        std::vector<std::uint64_t> crcs;  ///< where its CRC-32 belongs, 0 there now; nowhere in a stream
    };
    std::vector<std::string> runs;                   ///< before, between and behind the holes, in the file's order
    std::map<std::string, Hole, std::less<>> holes;  ///< by key
    std::uint64_t size = 0;
};

/// Whole storages, by key.
using Contents = std::map<std::string, std::string, std::less<>>;

/// The frame of an archive of `root`. Of the storages that its tensors refer to, those of `holes` are left out, the
/// others are `given` or taken from `storages`; throws Error when it lacks one.
ArchiveFrame frame_archive(Value root, const Holes& holes, const Contents& given = {},
                           const Archive* storages = nullptr);

/// The same for the legacy stream that torch.save wrote before archives.
ArchiveFrame frame_stream(Value root, const Holes& holes, const Contents& given);

/// A tensor as torch.save pickles it, from element `offset` on of storage `key`, which has so many elements.
Value tensor_value(Document& document, DType dtype, const Shape& shape, const Strides& strides, std::string_view key,
                   std::uint64_t elements, std::uint64_t offset = 0, bool requires_grad = false);

/// Quantized tensors have scales beside their elements.
bool is_quantized(DType dtype);

}  // namespace tpx::torch
