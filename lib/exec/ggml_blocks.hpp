// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/core/ggml_tensor.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace tpx {

/// Computes the values of one block, as many as its type has, exactly as the gguf package does.
void dequantize_block(GgmlType type, const std::byte* block, float* values);

/// Computes values of ggml's quantized tensors, reading only the blocks that contain them; reuses its buffers.
class BlockReader {
public:
    /// Fills a span with the bytes of a file of the catalogue from an offset on.
    using Read = std::function<void(std::uint32_t file, std::uint64_t offset, std::span<std::byte> into)>;

    /// Fills `into` with the values of `tensor` from byte `offset` on; both must be whole elements.
    void read(const GgmlTensor& tensor, std::uint64_t offset, std::span<std::byte> into, const Read& read);

private:
    std::vector<std::byte> blocks_;
    std::vector<float> values_;
};

}  // namespace tpx
