// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/encodings/hdf5/handles.hpp"
#include "formats/encodings/hdf5/sparse_bytes.hpp"
#include "lib/core/file.hpp"

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

/// The small part of HDF5 that tpx's own files use: attributes on the root, groups, and contiguous arrays of numbers
/// and of fixed-length text. Nothing else is read, so that a file cannot ask for more memory than it has bytes, for
/// another file, or for a filter. The 512 bytes before HDF5's own, its user block, contain a line of text with the
/// schema, the size of the file and the CRC-64 of all bytes after the block, so that a damaged file is rejected before
/// HDF5's parser sees it.
namespace tpx::formats::hdf5 {

/// The user block of `file`, computed from its size and its bytes after the block; ignores the block that `file` has.
inline constexpr std::size_t block_size = 512;
std::string user_block(std::string_view file, std::string_view schema);

/// The HDF5 type of T in memory; T is std::uint32_t, std::uint64_t, std::int32_t, std::int64_t or double.
template <class T>
hid_t memory_type();
template <>
hid_t memory_type<std::uint32_t>();
template <>
hid_t memory_type<std::int32_t>();
template <>
hid_t memory_type<std::uint64_t>();
template <>
hid_t memory_type<std::int64_t>();
template <>
hid_t memory_type<double>();

/// Builds a file in memory and writes it to disk when it is complete, because libhdf5 does not recover from a full
/// disk.
class Writer {
public:
    Writer(std::filesystem::path path, std::string_view schema);

    void attribute(const char* name, std::string_view text);
    void attribute(const char* name, std::uint64_t number);
    void attribute(const char* name, double number);
    void group(const char* name);

    /// Writes a one-dimensional array of texts, padded to the length of the longest.
    void texts(const char* name, std::span<const std::string> texts);

    /// Writes `values`, which are in C order, with dimensions `shape`. Whole numbers are stored little-endian in 8, 16,
    /// 32 or 64 bits, the fewest that can represent all of them.
    template <class T>
    void numbers(const char* name, std::span<const T> values, std::span<const hsize_t> shape);

    /// Writes the file (write_file). Throws Error on failure.
    void commit();

private:
    void attribute(const char* name, hid_t file_type, hid_t type, const void* number);
    void array(const char* name, hid_t file_type, hid_t type, const void* values, std::span<const hsize_t> shape);

    std::filesystem::path path_;
    std::string schema_;
    SparseBytes content_;
    File file_;  // in content_, which outlives it
};

/// Reads what Writer writes, from a file that is not trusted. Throws Error "'NAME': cause" for anything else; the
/// caller adds the file's path.
class Reader {
public:
    /// Throws Error "FILE: cause" if the file is of another kind, with Exit::no if its bytes have changed since it was
    /// written.
    Reader(const std::filesystem::path& path, std::string_view schema);

    std::string attribute_text(const char* name) const;
    std::uint64_t attribute_number(const char* name) const;
    double attribute_real(const char* name) const;
    bool has_attribute(const char* name) const;
    bool has_group(const char* name) const;
    bool has_column(const char* name) const;

    std::vector<std::string> texts(const char* name) const;

    /// The dimensions of an array.
    std::vector<hsize_t> shape(const char* name) const;

    /// Reads an array with dimensions `shape`, all of whose numbers T can represent.
    template <class T>
    std::vector<T> numbers(const char* name, std::span<const hsize_t> shape) const;

private:
    struct Array {
        Dataset dataset;
        Type type;
        std::vector<hsize_t> shape;
        std::size_t count = 0;
    };
    Array open(const char* name) const;
    void read_attribute(const char* name, hid_t stored, hid_t type, void* into) const;
    void read(const char* name, const Array& array, hid_t type, void* into) const;

    std::string content_;
    std::uint64_t size_ = 0;
    File file_;
};

}  // namespace tpx::formats::hdf5
