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

/// Reads many blobs of one tensor, most of which differ in their payloads only: such blobs are parsed once. A blob that
/// has the length of an earlier one, and the same bytes wherever parsing that one looked, holds the same tensor.
class TensorBlobs {
public:
    /// As read_tensor_blob(). `bytes` are those of a short range, if the caller has read them already.
    StoredTensor read(const FileRange& range, std::string_view bytes = {});

    /// How many blobs were parsed.
    std::uint64_t parsed() const { return parsed_; }

private:
    struct Known {
        std::vector<std::pair<std::uint64_t, std::string>> examined;  // positions, disjoint and ascending, and bytes
        StoredTensor tensor;                                          // relative to the range
    };

    std::unordered_map<std::uint64_t, Known> known_;  // by length: the last one
    std::uint64_t parsed_ = 0;
};

}  // namespace tpx::torch
