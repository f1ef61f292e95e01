// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/core/coding.hpp"
#include "lib/core/dtype.hpp"
#include "lib/core/file.hpp"

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

/// What an HDF5 file holds, told without its payloads.
namespace tpx::formats::hdf5 {

/// Bytes that are an HDF5 file: of an open file from `offset` on, or those in memory when there is no file.
struct Bytes {
    const Fd* fd = nullptr;
    std::filesystem::path path;  ///< for messages
    std::uint64_t offset = 0;
    std::uint64_t length = 0;
    std::string_view memory;
};

/// An attribute of texts or numbers; those of other types are only named.
struct AttributeValue {
    enum class Kind : std::uint8_t { texts, integers, reals, other };

    std::string name;
    Kind kind = Kind::other;
    bool is_list = false;  ///< of one dimension, and not a scalar
    std::vector<std::string> texts;
    std::vector<std::int64_t> integers;
    std::vector<double> reals;
};
using Attributes = std::vector<AttributeValue>;

const AttributeValue* find(const Attributes& attributes, std::string_view name);

/// The text, or the only one, of the attribute `name`; null when there is no such text.
const std::string* text_of(const Attributes& attributes, std::string_view name);

/// The whole number of the attribute `name`, if it is one.
std::optional<std::int64_t> number_of(const Attributes& attributes, std::string_view name);

struct GroupFacts {
    std::string path;  ///< without a leading slash; empty: the root
    Attributes attributes;
};

/// How HDF5 lays out a dataset.
enum class Storage : std::uint8_t { contiguous, compact, chunked };

struct DatasetFacts {
    std::string path;
    std::string refusal;         ///< why it cannot be read, though it is a tensor; empty when it can
    std::string kind;            ///< what it is if it is no tensor: "texts"; empty for tensors
    std::optional<DType> dtype;  ///< as the type itself says, without an attribute's help
    bool vague = false;          ///< a whole number or opaque, of which an attribute may tell that it is another dtype
    std::uint32_t item = 0;      ///< bytes of an element
    std::uint32_t part = 0;      ///< bytes of what the other byte order reverses: half a complex element
    bool swapped = false;        ///< big-endian
    std::vector<std::uint64_t> shape;
    Storage storage = Storage::contiguous;
    std::uint64_t offset = 0;  ///< contiguous: from the file's start
    bool written = true;       ///< contiguous: whether its bytes are stored at all
    std::vector<std::uint64_t> chunk_shape;
    std::vector<Coding::Filter> filters;
    bool edges_are_plain = false;       ///< chunks over the edge are stored without filters
    std::vector<std::uint64_t> chunks;  ///< of each: its first index on each axis, offset, length, filters skipped
    std::string fill;  ///< what elements have that are not stored, little-endian; compact: all elements
    Attributes attributes;
};

struct Survey {
    std::vector<GroupFacts> groups;  ///< parents first, the root first of all; else by name
    std::vector<DatasetFacts> datasets;
};

/// Reads what the HDF5 file in `bytes` holds. This is done in a process of its own, for libhdf5 may crash or never end
/// on damaged files. Throws Error "FILE: ..." when it is no whole HDF5 file, or has links that leave it or go in
/// circles.
Survey survey(const Bytes& bytes);

/// Where the HDF5 signature stands in a file that begins with `start` and has `size` bytes; read(offset, 8 bytes) is
/// for what lies behind.
std::optional<std::uint64_t> find_signature(const Bytes& bytes);

/// Is survey(), within this process: for what runs in the other one.
Survey survey_here(const Bytes& bytes);

}  // namespace tpx::formats::hdf5
