// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/encodings/torch/archive.hpp"

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace tpx::torch {

/// Reads many blobs that contain one tensor each. Most differ only in their payloads, and are parsed only once: a blob
/// with the length of an earlier one, and the same bytes wherever the parser looked, contains the same kind of tensor.
class TensorBlobs {
public:
    /// Same as read_tensor_blob(). `bytes` are those of a short range, if the caller has already read them.
    StoredTensor read(const FileRange& range, std::string_view bytes = {});

    /// How many blobs were parsed.
    std::uint64_t parsed() const { return parsed_; }

private:
    struct Known {
        std::vector<std::pair<std::uint64_t, std::string>> examined;  // positions, disjoint and ascending, and bytes
        StoredTensor tensor;                                          // relative to the range
    };

    std::unordered_map<std::uint64_t, Known> known_;  // by length: the last such blob
    std::uint64_t parsed_ = 0;
};

}  // namespace tpx::torch
