// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/encodings/hdf5/handles.hpp"
#include "formats/encodings/hdf5/sparse_bytes.hpp"
#include "formats/encodings/hdf5/survey.hpp"
#include "lib/core/box.hpp"
#include "lib/core/catalogue.hpp"

#include <set>

namespace tpx::formats::hdf5 {

/// An HDF5 file whose datasets have places but no bytes yet, made by libhdf5 in memory that only its metadata takes.
class Skeleton {
public:
    Skeleton();

    /// Makes the group `path` and those above it. "" is the root.
    void group(const std::string& path);

    /// Makes a dataset, and the groups above it, for elements of `dtype`; little-endian, in one run of the file.
    /// Types that HDF5 lacks become whole numbers, or with `opaque` (as Keras has it) opaque bytes, with the attribute
    /// `dtype`.
    void dataset(const std::string& path, DType dtype, const Shape& shape, bool opaque = false);

    /// Adds an attribute to the group or dataset `path`. Those of kind `other` are left out.
    void attribute(const std::string& path, const AttributeValue& value);

    /// Closes the file: where each dataset's bytes go, in the order in which they were made (0 for those without
    /// any), the file's size, and the bytes of `file` that are no payload.
    struct Frame {
        std::vector<std::uint64_t> offsets;
        std::uint64_t size = 0;
        std::vector<Draft::Fixed> fixed;
    };
    Frame close(std::uint32_t file);

private:
    SparseBytes content_;  // outlives the file
    File file_;
    std::set<std::string> groups_;
    std::vector<std::uint64_t> offsets_;
};

AttributeValue text_attribute(const char* name, std::string_view text);
AttributeValue number_attribute(const char* name, std::int64_t number);
AttributeValue list_attribute(const char* name, const Tuple<Index>& numbers);

}  // namespace tpx::formats::hdf5
