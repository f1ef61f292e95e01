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

/// The content of an HDF5 file without its payloads.
namespace tpx::formats::hdf5 {

/// The bytes of an HDF5 file: a range of an open file, or `memory` if `fd` is null.
struct Bytes {
    const Fd* fd = nullptr;
    std::filesystem::path path;  ///< for messages
    std::uint64_t offset = 0;
    std::uint64_t length = 0;
    std::string_view memory;
};

/// An attribute. Only texts and numbers have values here; of other kinds only the name is known.
struct AttributeValue {
    enum class Kind : std::uint8_t { texts, integers, reals, other };

    std::string name;
    Kind kind = Kind::other;
    bool is_list = false;  ///< one-dimensional, not a scalar
    std::vector<std::string> texts;
    std::vector<std::int64_t> integers;
    std::vector<double> reals;
};
using Attributes = std::vector<AttributeValue>;

const AttributeValue* find(const Attributes& attributes, std::string_view name);

/// The text of the attribute `name`; null unless the attribute contains exactly one text.
const std::string* text_of(const Attributes& attributes, std::string_view name);

/// The integer of the attribute `name`; unset unless the attribute contains exactly one integer.
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
    std::string kind;            ///< what it is if it is not a tensor, such as "text"; empty for tensors
    std::optional<DType> dtype;  ///< from the HDF5 type alone, without attributes
    bool is_ambiguous = false;   ///< an integer or opaque type; an attribute may name another dtype
    std::uint32_t item = 0;      ///< bytes of an element
    std::uint32_t part = 0;      ///< bytes of the unit that has a byte order: half an element if complex
    bool swapped = false;        ///< big-endian
    std::vector<std::uint64_t> shape;
    Storage storage = Storage::contiguous;
    std::uint64_t offset = 0;  ///< contiguous: from the file's start
    bool written = true;       ///< contiguous: whether its bytes are stored at all
    std::vector<std::uint64_t> chunk_shape;
    std::vector<Coding::Filter> filters;
    std::optional<ScaleOffset> scale_offset;  ///< set if it is one of `filters`
    bool edges_are_plain = false;             ///< chunks that extend beyond the shape are stored without filters
    std::vector<std::uint64_t> chunks;  ///< of each chunk: first index on each axis, offset, length, skipped filters
    std::string fill;  ///< value of elements that are not stored, little-endian; compact: values of all elements
    Attributes attributes;
};

/// A soft link to something that the file does not contain.
struct BrokenLink {
    std::string path;
    std::string target;
};

struct Survey {
    std::vector<GroupFacts> groups;  ///< parents before children, the root first; siblings by name
    std::vector<DatasetFacts> datasets;
    std::vector<BrokenLink> broken_links;
};

/// Surveys the HDF5 file in `bytes`, in a separate process because libhdf5 may crash or hang on damaged files. Throws
/// Error "FILE: ..." if `bytes` is not a complete HDF5 file, or if its links lead out of the file or form cycles.
Survey survey(const Bytes& bytes);

/// The offset of the HDF5 signature in `bytes`, which is 0 or 512 times a power of two; unset if there is none.
std::optional<std::uint64_t> find_signature(const Bytes& bytes);

/// Same as survey(), but in this process. survey() calls it in the separate process.
Survey survey_here(const Bytes& bytes);

}  // namespace tpx::formats::hdf5
