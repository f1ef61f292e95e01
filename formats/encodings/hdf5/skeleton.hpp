// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/encodings/hdf5/handles.hpp"
#include "formats/encodings/hdf5/sparse_bytes.hpp"
#include "formats/encodings/hdf5/survey.hpp"
#include "lib/core/box.hpp"
#include "lib/core/catalogue.hpp"

#include <set>

namespace tpx::formats::hdf5 {

/// An HDF5 file, made by libhdf5 in memory, whose datasets have offsets but no data yet. Only its metadata uses memory.
class Skeleton {
public:
    Skeleton();

    /// Creates the group `path` and its parents. "" is the root.
    void group(const std::string& path);

    /// Creates a dataset and the groups above it. Its elements of `dtype` are little-endian and contiguous in the file.
    /// Types that HDF5 lacks are stored as whole numbers or, with `opaque`, as opaque bytes like Keras does, and the
    /// attribute `dtype` names them.
    void dataset(const std::string& path, DType dtype, const Shape& shape, bool opaque = false);

    /// Adds an attribute to the group or dataset `path`. Attributes of kind `other` are skipped.
    void attribute(const std::string& path, const AttributeValue& value);

    /// Closes the file, which is number `file` of a draft. Returns the offset of each dataset's payload in the order of
    /// creation (0 if the payload is empty), the file's size, and all bytes that are not payload.
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
