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

/// The bytes around the payload of a torch.save archive of one C-order tensor: prefix, payload, suffix, without gaps.
/// The payload starts at a multiple of 64.
struct TensorFrame {
    std::string prefix;
    std::uint64_t payload = 0;  ///< bytes
    std::string suffix;
    /// Where the payload's CRC-32 (little-endian, as in zip) belongs, from the start of the archive: before the payload
    /// and in the directory. The frame has zeros there, which is the CRC-32 of an empty payload.
    std::array<std::uint64_t, 2> crcs{};

    std::uint64_t size() const { return prefix.size() + payload + suffix.size(); }
};

/// The frame of a tensor with little-endian elements; torch.load(weights_only=True) accepts the archive. Throws Error
/// for dtypes that torch lacks and for more than 2^62 bytes.
TensorFrame frame_tensor(DType dtype, const Shape& shape);

/// A complete torch.save archive of `root`. Takes the storages of its tensors from `storages`, which may be null if
/// there are no tensors. Throws Error if a storage is missing.
std::string write_archive(Value root, const Archive* storages = nullptr);

/// Sizes of storages in bytes, by key.
using Holes = std::map<std::string, std::uint64_t, std::less<>>;

/// The bytes of a torch.save archive around storages that the caller writes.
struct ArchiveFrame {
    struct Hole {
        std::uint64_t offset = 0;  ///< from the start of the archive (a multiple of 64) or stream
        std::uint64_t bytes = 0;
        std::vector<std::uint64_t> crcs;  ///< where its CRC-32 belongs, zeros in the frame; empty for a stream
    };
    std::vector<std::string> runs;                   ///< before, between and after the holes, in file order
    std::map<std::string, Hole, std::less<>> holes;  ///< by key
    std::uint64_t size = 0;
};

/// Whole storages, by key.
using Contents = std::map<std::string, std::string, std::less<>>;

/// The frame of an archive of `root`. The storages named in `holes` are left out; the others come from `given` or
/// `storages`. Throws Error if a storage is missing.
ArchiveFrame frame_archive(Value root, const Holes& holes, const Contents& given = {},
                           const Archive* storages = nullptr);

/// Same as frame_archive(), for the legacy stream that torch.save wrote before zip archives.
ArchiveFrame frame_stream(Value root, const Holes& holes, const Contents& given);

/// A tensor as torch.save pickles it. It begins at element `offset` of storage `key`, which has `elements` elements.
Value tensor_value(Document& document, DType dtype, const Shape& shape, const Strides& strides, std::string_view key,
                   std::uint64_t elements, std::uint64_t offset = 0, bool requires_grad = false);

/// Whether `dtype` is one of torch's quantized types, whose tensors have scales in addition to their elements.
bool is_quantized(DType dtype);

}  // namespace tpx::torch
