// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/core/block_quantized.hpp"
#include "lib/core/ggml_tensor.hpp"
#include "lib/core/scaled_codes.hpp"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace tpx {

/// How HDF5's scale-offset filter stored elements: each is a code of few bits, added to the minimum of its chunk.
struct ScaleOffset {
    bool is_identity = false;    ///< if so, elements are stored as they are
    bool is_real = false;        ///< codes are IEEE numbers times 10^decimals, rounded; else integers
    bool is_big_endian = false;  ///< byte order of the decoded elements
    std::uint32_t item = 1;      ///< bytes of an element; 4 or 8 if they are real
    std::int32_t decimals = 0;
    std::optional<std::uint64_t> fill = std::nullopt;  ///< bits of the fill value, if it has a code of its own
};

/// How to decode bytes that a file stores in encoded form: in chunks of equal decoded size, each decoded on its own.
/// Chunk k holds the decoded bytes from k * chunk_size on.
struct Coding {
    enum class Filter : std::uint8_t {
        deflate,       ///< a zlib stream
        raw_deflate,   ///< a deflate stream without header, as in zip
        lzf,           ///< an LZF stream, as h5py's filter of this name writes it
        scale_offset,  ///< as `scale_offset` describes
        shuffle,     ///< first bytes of all items, then all second bytes, ...; a rest shorter than an item is unchanged
        fletcher32,  ///< followed by its checksum, as HDF5 computes it
        swap,        ///< items have the other byte order; undone after those above, wherever it is in `filters`
        negate,      ///< items are IEEE numbers with the sign inverted; undone after a swap
        conjugate    ///< every second item, an imaginary part, has its sign inverted; undone after a swap
    };
    struct Chunk {
        std::uint64_t offset = 0;   ///< where the chunk is stored, bytes from the start of the file
        std::uint64_t length = 0;   ///< stored bytes; 0: not stored, the chunk consists of copies of `fill`
        std::uint32_t skipped = 0;  ///< bit k is set when filter k was not applied
    };

    /// The most bytes that one byte of a deflate stream can decode to; of an LZF stream, fewer.
    static constexpr std::uint64_t max_inflation = 1032;

    std::vector<Filter> filters;  ///< in the order in which they were applied
    std::uint32_t item = 1;       ///< bytes of an item, for shuffle, swap, negate and conjugate
    std::optional<ScaleOffset> scale_offset = std::nullopt;  ///< set if it is one of `filters`
    std::uint64_t chunk_size = 0;
    std::uint64_t size = 0;  ///< decoded bytes of all chunks; the last chunk may be shorter than the others
    std::vector<Chunk> chunks;
    std::string fill;                                     ///< repeated in chunks that are not stored; empty: zeros
    std::shared_ptr<const ScaledCodes> scaled = nullptr;  ///< if set, there are no chunks: the bytes are its values
    std::shared_ptr<const GgmlTensor> ggml = nullptr;     ///< the same for ggml blocks
    std::shared_ptr<const BlockQuantized> quantized = nullptr;  ///< the same for codes or scales
    std::string owner;  ///< what the coding belongs to, for messages: "dataset 'w'"; may be empty

    /// The number of decoded bytes of chunk `k`.
    std::uint64_t size_of(std::uint64_t k) const { return std::min(chunk_size, size - k * chunk_size); }

    /// The coding of the values of the quantized tensor `owner`, row by row.
    static Coding of_values(std::shared_ptr<const ScaledCodes> scaled, std::string owner) {
        Coding coding{.size = scaled->size()};
        coding.scaled = std::move(scaled);
        coding.owner = std::move(owner);
        return coding;
    }

    static Coding of_values(std::shared_ptr<const GgmlTensor> ggml, std::string owner) {
        Coding coding{.size = ggml->size()};
        coding.ggml = std::move(ggml);
        coding.owner = std::move(owner);
        return coding;
    }

    /// The coding of the codes or scales of the tensor `owner`, row by row.
    static Coding of_quantization(std::shared_ptr<const BlockQuantized> quantized, std::string owner) {
        Coding coding{.size = quantized->size()};
        coding.quantized = std::move(quantized);
        coding.owner = std::move(owner);
        return coding;
    }

    /// Whether the bytes are computed from those of other tensors.
    bool is_computed() const { return scaled != nullptr || ggml != nullptr || quantized != nullptr; }

    /// The coding of `bytes` bytes of a file from `offset` on, whose items were changed by `filters` that keep their
    /// size.
    static Coding of_items(std::vector<Filter> filters, std::uint32_t item, std::uint64_t offset, std::uint64_t bytes) {
        constexpr std::uint64_t chunk = 65536;  // chunks never split an item or a pair of items
        Coding coding{.filters = std::move(filters), .item = item, .chunk_size = chunk, .size = bytes};
        for (std::uint64_t at = 0; at < bytes; at += chunk)
            coding.chunks.push_back({offset + at, std::min(chunk, bytes - at), 0});
        return coding;
    }
};

}  // namespace tpx
