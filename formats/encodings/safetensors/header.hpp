// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/core/box.hpp"
#include "lib/core/dtype.hpp"

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tpx::formats::safetensors {

/// The longest header in bytes that the reference library reads or writes.
inline constexpr std::uint64_t max_header_bytes = 100'000'000;

/// One tensor of one file; its bytes are [begin, end) of the file's buffer.
struct Entry {
    std::string name;
    DType dtype = DType::f32;
    Shape shape;
    std::uint64_t begin = 0;
    std::uint64_t end = 0;
};

/// Metadata keys of a rank's file: the number of ranks, to detect missing files, and the file's own name, to detect
/// files that were swapped.
inline constexpr const char* ranks_key = "TPX_RANKS";
inline constexpr const char* file_key = "TPX_FILE";

using Metadata = std::vector<std::pair<std::string, std::string>>;

/// The part of a file before its buffer. Entries are in buffer order and tile the buffer; their names are unique.
struct Header {
    Metadata metadata;
    std::vector<Entry> entries;
    std::uint64_t buffer = 0;  ///< where the buffer starts in the file
    std::uint64_t file_size = 0;
};

/// The size of a tensor in bytes. Throws Error if the size or an intermediate product is too large, or if the tensor
/// does not have a whole number of bytes.
std::uint64_t payload_size(DType dtype, const Shape& shape);

/// Parses the JSON of a header that precedes a buffer of `buffer_size` bytes, as strictly as the reference library;
/// also rejects duplicate names. Throws Error "tensor 'NAME': ...".
Header parse_header(std::string_view json, std::uint64_t buffer_size);

/// The header of the file at `path`. Throws Error "PATH: ...".
Header read_header(const std::filesystem::path& path);

/// `text` as a JSON string, escaped as little as JSON allows. Throws Error when it is not UTF-8.
std::string json_string(const std::string& text);

/// Orders `entries` as the reference library does (dtypes from wide to narrow, then names) and sets their places in
/// the buffer, back to back from 0. Returns the buffer's size.
std::uint64_t arrange(std::span<Entry> entries);

/// The bytes before the buffer, as the reference library writes them for arranged entries. With `place`, a multiple of
/// 8, adds spaces so that the buffer starts at that byte of a block (see file_blocks.hpp), unless this would make the
/// header longer than `max_header_bytes`. Throws Error if the header is longer than that even without these spaces.
std::string write_header(const Metadata& metadata, std::span<const Entry> entries,
                         std::optional<std::uint64_t> place = {});

}  // namespace tpx::formats::safetensors
