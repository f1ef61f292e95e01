// SPDX-License-Identifier: Apache-2.0
#include "formats/files/plan/hdf5.hpp"

#include "formats/encodings/hdf5/file_driver.hpp"
#include "lib/core/crc.hpp"
#include "lib/core/error.hpp"
#include "lib/core/path.hpp"
#include "lib/core/write_file.hpp"

#include <algorithm>
#include <array>
#include <type_traits>

namespace tpx::formats::hdf5 {
namespace {

// An attribute is stored in an object header, whose messages are shorter than 64 KiB.
constexpr std::size_t longest_attribute = 60'000;
constexpr std::size_t longest_text = 4096;

Type text_type(std::size_t length) {
    Type type{H5Tcopy(H5T_C_S1)};
    H5Tset_size(type.get(), std::max<std::size_t>(length, 1));
    H5Tset_strpad(type.get(), H5T_STR_NULLPAD);
    H5Tset_cset(type.get(), H5T_CSET_UTF8);
    return type;
}

// The narrowest of `types`, for 8, 16, 32 and 64 bits, that can represent all of `values`.
template <class T>
hid_t narrowest(std::span<const T> values, const std::array<hid_t, 4>& types) {
    T least = 0, most = 0;
    for (T value : values) {
        least = std::min(least, value);
        most = std::max(most, value);
    }
    std::size_t width = 0;
    for (int bits = 8; bits < 64 && width < 3; bits *= 2, ++width) {
        const int left = std::is_signed_v<T> ? bits - 1 : bits;
        const auto end = std::uint64_t{1} << left;
        if (static_cast<std::uint64_t>(most) < end && (least == 0 || static_cast<std::uint64_t>(-(least + 1)) < end))
            break;
    }
    return types[width];
}

template <class T>
hid_t file_type(std::span<const T> values) {
    if constexpr (std::is_same_v<T, double>) {
        return H5T_IEEE_F64LE;
    } else if constexpr (std::is_signed_v<T>) {
        return narrowest(values, {H5T_STD_I8LE, H5T_STD_I16LE, H5T_STD_I32LE, H5T_STD_I64LE});
    } else {
        return narrowest(values, {H5T_STD_U8LE, H5T_STD_U16LE, H5T_STD_U32LE, H5T_STD_U64LE});
    }
}

}  // namespace

template <>
hid_t memory_type<std::uint32_t>() {
    return H5T_NATIVE_UINT32;
}
template <>
hid_t memory_type<std::int32_t>() {
    return H5T_NATIVE_INT32;
}
template <>
hid_t memory_type<std::uint64_t>() {
    return H5T_NATIVE_UINT64;
}
template <>
hid_t memory_type<std::int64_t>() {
    return H5T_NATIVE_INT64;
}

template <>
hid_t memory_type<double>() {
    return H5T_NATIVE_DOUBLE;
}

std::string user_block(std::string_view file, std::string_view schema) {
    const std::string_view rest = file.substr(std::min(file.size(), block_size));
    std::string block =
        fmt::format("{} bytes={} crc64={:016x}\n", schema, file.size(), Crc64::of(std::as_bytes(std::span{rest})));
    block.resize(block_size, '\0');
    return block;
}

Writer::Writer(std::filesystem::path path, std::string_view schema) : path_{std::move(path)}, schema_{schema} {
    const Properties creation = without_times(H5P_FILE_CREATE), access{H5Pcreate(H5P_FILE_ACCESS)};
    H5Pset_userblock(creation.get(), block_size);
    file_ = create_bytes(content_, access, creation);
    if (!file_) throw failure("{}: HDF5 cannot create it in memory", path_.string());
}

void Writer::attribute(const char* name, std::string_view text) {
    if (text.size() > longest_attribute)
        throw failure("{}: '{}': {} bytes, at most {} can be stored", path_.string(), name, text.size(),
                      longest_attribute);
    const std::string content = text.empty() ? std::string(1, '\0') : std::string{text};
    const Type type = text_type(content.size());
    const Space space{H5Screate(H5S_SCALAR)};
    const Attribute made{H5Acreate2(file_.get(), name, type.get(), space.get(), H5P_DEFAULT, H5P_DEFAULT)};
    if (!made || H5Awrite(made.get(), type.get(), content.data()) < 0)
        throw failure("{}: '{}': HDF5 cannot write it", path_.string(), name);
}

void Writer::attribute(const char* name, hid_t file_type, hid_t type, const void* number) {
    const Space space{H5Screate(H5S_SCALAR)};
    const Attribute made{H5Acreate2(file_.get(), name, file_type, space.get(), H5P_DEFAULT, H5P_DEFAULT)};
    if (!made || H5Awrite(made.get(), type, number) < 0)
        throw failure("{}: '{}': HDF5 cannot write it", path_.string(), name);
}

void Writer::attribute(const char* name, std::uint64_t number) {
    attribute(name, H5T_STD_U64LE, H5T_NATIVE_UINT64, &number);
}

void Writer::attribute(const char* name, double number) { attribute(name, H5T_IEEE_F64LE, H5T_NATIVE_DOUBLE, &number); }

void Writer::group(const char* name) {
    const Properties creation = without_times(H5P_GROUP_CREATE);
    if (!Group{H5Gcreate2(file_.get(), name, H5P_DEFAULT, creation.get(), H5P_DEFAULT)})
        throw failure("{}: '{}': HDF5 cannot write it", path_.string(), name);
}

void Writer::texts(const char* name, std::span<const std::string> texts) {
    std::size_t longest = 1;
    for (const std::string& text : texts) {
        longest = std::max(longest, text.size());
        if (text.size() > longest_text || text.find('\0') != text.npos)
            throw failure("{}: '{}': a text of {} bytes cannot be stored (at most {}, none of them 0)", path_.string(),
                          name, text.size(), longest_text);
    }
    std::string padded;
    padded.reserve(longest * texts.size());
    for (const std::string& text : texts) padded.append(text).append(longest - text.size(), '\0');
    const Type type = text_type(longest);
    const hsize_t count = texts.size();
    array(name, type.get(), type.get(), padded.data(), std::span{&count, 1});
}

template <class T>
void Writer::numbers(const char* name, std::span<const T> values, std::span<const hsize_t> shape) {
    array(name, file_type(values), memory_type<T>(), values.data(), shape);
}
template void Writer::numbers(const char*, std::span<const std::uint32_t>, std::span<const hsize_t>);
template void Writer::numbers(const char*, std::span<const std::int32_t>, std::span<const hsize_t>);
template void Writer::numbers(const char*, std::span<const std::uint64_t>, std::span<const hsize_t>);
template void Writer::numbers(const char*, std::span<const std::int64_t>, std::span<const hsize_t>);
template void Writer::numbers(const char*, std::span<const double>, std::span<const hsize_t>);

void Writer::array(const char* name, hid_t file_type, hid_t type, const void* values, std::span<const hsize_t> shape) {
    const Space space{H5Screate_simple(static_cast<int>(shape.size()), shape.data(), nullptr)};
    const Properties creation = without_times(H5P_DATASET_CREATE);
    const Dataset made{H5Dcreate2(file_.get(), name, file_type, space.get(), H5P_DEFAULT, creation.get(), H5P_DEFAULT)};
    const bool is_empty = std::ranges::find(shape, hsize_t{0}) != shape.end();
    if (!made || (!is_empty && H5Dwrite(made.get(), type, H5S_ALL, H5S_ALL, H5P_DEFAULT, values) < 0))
        throw failure("{}: '{}': HDF5 cannot write it", path_.string(), name);
}

void Writer::commit() {
    if (H5Fflush(file_.get(), H5F_SCOPE_GLOBAL) < 0)
        throw failure("{}: HDF5 cannot write it to memory", path_.string());
    file_ = File{};
    std::string content(content_.size(), '\0');
    content_.read(0, std::as_writable_bytes(std::span{content}));
    content.replace(0, block_size, user_block(content, schema_));
    write_file(path_, content);
}

}  // namespace tpx::formats::hdf5
