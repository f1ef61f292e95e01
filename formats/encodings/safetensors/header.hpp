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
inline constexpr std::uint64_t longest_header = 100'000'000;

/// One tensor of one file; its bytes are [begin, end) of the file's buffer.
struct Entry {
    std::string name;
    DType dtype = DType::f32;
    Shape shape;
    std::uint64_t begin = 0;
    std::uint64_t end = 0;
};

/// The keys under which a file of a rank tells of how many ranks it is one, so that a lost one is missed, and its own
/// name, so that files that changed places are.
inline constexpr const char* ranks_key = "TPX_RANKS";
inline constexpr const char* file_key = "TPX_FILE";

using Metadata = std::vector<std::pair<std::string, std::string>>;

/// What stands before a file's buffer. Entries are in buffer order and tile the buffer; their names differ.
struct Header {
    Metadata metadata;
    std::vector<Entry> entries;
    std::uint64_t buffer = 0;  ///< where the buffer starts in the file
    std::uint64_t file_size = 0;
};

/// The bytes of a tensor. Throws Error when they, or any product on the way, do not fit in 63 bits or are no whole
/// number of bytes.
std::uint64_t payload_size(DType dtype, const Shape& shape);

/// Reads the JSON of a header that stands before a buffer of `buffer_size` bytes, as strictly as the reference library,
/// and refuses names twice as well. Throws Error "tensor 'NAME': ...".
Header parse_header(std::string_view json, std::uint64_t buffer_size);

/// The header of the file at `path`. Throws Error "PATH: ...".
Header read_header(const std::filesystem::path& path);

/// `text` as a JSON string, escaped as little as JSON allows. Throws Error when it is not UTF-8.
std::string json_string(const std::string& text);

/// Orders `entries` as the reference library does (dtypes from wide to narrow, then names) and sets their places in
/// the buffer, back to back from 0. Returns the buffer's size.
std::uint64_t arrange(std::span<Entry> entries);

/// The bytes before the buffer, as the reference library writes them for arranged entries. With `place`, spaces are
/// added so that the buffer starts at that byte of a block (file_blocks.hpp), a multiple of 8, if a header may be that
/// long. Throws Error when they are longer than a header may be.
std::string write_header(const Metadata& metadata, std::span<const Entry> entries,
                         std::optional<std::uint64_t> place = {});

}  // namespace tpx::formats::safetensors
