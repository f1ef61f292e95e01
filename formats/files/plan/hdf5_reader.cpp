// SPDX-License-Identifier: Apache-2.0
#include "formats/files/plan/hdf5.hpp"

#include "formats/encodings/hdf5/file_driver.hpp"
#include "lib/core/error.hpp"
#include "lib/core/file.hpp"

#include <fcntl.h>

#include <algorithm>
#include <limits>
#include <type_traits>

namespace tpx::formats::hdf5 {
namespace {

constexpr int most_dimensions = 3;

template <class... Types>
bool is_one_of(hid_t type, Types... types) {
    return ((H5Tequal(type, types) > 0) || ...);
}

// Whether T can represent all numbers of `type`.
template <class T>
bool holds_type(hid_t type) {
    if constexpr (std::is_same_v<T, double>) return is_one_of(type, H5T_IEEE_F64LE);
    if (H5Tget_size(type) > sizeof(T)) return false;
    if constexpr (std::is_signed_v<T>)
        return is_one_of(type, H5T_STD_I8LE, H5T_STD_I16LE, H5T_STD_I32LE, H5T_STD_I64LE);
    return is_one_of(type, H5T_STD_U8LE, H5T_STD_U16LE, H5T_STD_U32LE, H5T_STD_U64LE);
}

bool is_fixed_text(hid_t type) {
    return H5Tget_class(type) == H5T_STRING && H5Tis_variable_str(type) == 0 && H5Tget_size(type) > 0;
}

std::string trimmed(std::string text) {
    text.erase(text.find_last_not_of('\0') + 1);
    return text;
}

// Whether each part of a path such as "a/b" is a hard link, not a soft or external one.
bool is_plain_path(hid_t file, std::string_view name) {
    for (std::size_t end = name.find('/');; end = name.find('/', end + 1)) {
        H5L_info_t link;
        const std::string part{name.substr(0, end)};
        if (H5Lget_info(file, part.c_str(), &link, H5P_DEFAULT) < 0 || link.type != H5L_TYPE_HARD) return false;
        if (end == name.npos) return true;
    }
}

// Throws Error unless `block` begins with the schema, whose number after the slash is its version.
void check_schema(std::string_view block, std::string_view schema, const std::filesystem::path& path) {
    const std::string_view own = block.substr(0, std::min(block.find(' '), block.size()));
    if (own == schema) return;
    const std::string_view kind = schema.substr(0, schema.find('/') + 1);
    const std::string_view version = own.starts_with(kind) ? own.substr(kind.size()) : "";
    if (version.empty() || version.size() > 9 ||
        !std::ranges::all_of(version, [](char c) { return c >= '0' && c <= '9'; }))
        throw failure("{}: not a {} file", path.string(), schema);
    throw failure("{}: of version {}{}, this tpx reads {} only", path.string(), kind, version, schema);
}

std::string first_block(const std::filesystem::path& path) {
    std::string block(std::min<std::uint64_t>(size_of_file(path), block_size), '\0');
    read_at(open_file(path, O_RDONLY), 0, std::as_writable_bytes(std::span{block}), path);
    return block;
}

}  // namespace

Reader::Reader(const std::filesystem::path& path, std::string_view schema) {
    check_schema(first_block(path), schema, path);  // before a file of unknown kind is read completely
    content_ = read_file(path, std::numeric_limits<std::uint64_t>::max());
    size_ = content_.size();
    const std::string_view stored = std::string_view{content_}.substr(0, block_size);
    if (stored != user_block(content_, schema))
        throw Error{Exit::no, "{}: altered or cut short since it was made (now {} bytes)", path.string(), size_};
    file_ = open_bytes({nullptr, path, 0, size_, content_});
    if (!file_) throw failure("{}: not a whole HDF5 file", path.string());
}

std::string Reader::attribute_text(const char* name) const {
    const Attribute attribute{H5Aopen(file_.get(), name, H5P_DEFAULT)};
    if (!attribute) throw failure("'{}': no such attribute", name);
    const Type type{H5Aget_type(attribute.get())};
    const Space space{H5Aget_space(attribute.get())};
    const bool fits = H5Sget_simple_extent_type(space.get()) == H5S_SCALAR && is_fixed_text(type.get()) &&
                      H5Tget_size(type.get()) <= size_;
    if (!fits) throw failure("'{}': not a text of fixed length", name);
    std::string text(H5Tget_size(type.get()), '\0');
    if (H5Aread(attribute.get(), type.get(), text.data()) < 0) throw failure("'{}': HDF5 cannot read it", name);
    return trimmed(std::move(text));
}

void Reader::read_attribute(const char* name, hid_t stored, hid_t type, void* into) const {
    const Attribute attribute{H5Aopen(file_.get(), name, H5P_DEFAULT)};
    if (!attribute) throw failure("'{}': no such attribute", name);
    const Type own{H5Aget_type(attribute.get())};
    const Space space{H5Aget_space(attribute.get())};
    if (H5Sget_simple_extent_type(space.get()) != H5S_SCALAR || H5Tequal(own.get(), stored) <= 0)
        throw failure("'{}': not a number of 64 bits of the expected type", name);
    if (H5Aread(attribute.get(), type, into) < 0) throw failure("'{}': HDF5 cannot read it", name);
}

std::uint64_t Reader::attribute_number(const char* name) const {
    std::uint64_t number = 0;
    read_attribute(name, H5T_STD_U64LE, H5T_NATIVE_UINT64, &number);
    return number;
}

double Reader::attribute_real(const char* name) const {
    double number = 0;
    read_attribute(name, H5T_IEEE_F64LE, H5T_NATIVE_DOUBLE, &number);
    return number;
}

bool Reader::has_attribute(const char* name) const { return H5Aexists(file_.get(), name) > 0; }

bool Reader::has_group(const char* name) const {
    return is_plain_path(file_.get(), name) && Group{H5Gopen2(file_.get(), name, H5P_DEFAULT)};
}

bool Reader::has_column(const char* name) const {
    return is_plain_path(file_.get(), name) && Dataset{H5Dopen2(file_.get(), name, H5P_DEFAULT)};
}

Reader::Array Reader::open(const char* name) const {
    const auto mistake = [&](std::string_view cause) { return failure("'{}': {}", name, cause); };
    if (!is_plain_path(file_.get(), name)) throw mistake("no such dataset");
    Array array{Dataset{H5Dopen2(file_.get(), name, H5P_DEFAULT)}, Type{}, {}, 1};
    if (!array.dataset) throw mistake("no such dataset");
    array.type = Type{H5Dget_type(array.dataset.get())};
    const Space space{H5Dget_space(array.dataset.get())};
    const Properties properties{H5Dget_create_plist(array.dataset.get())};
    const int dimensions = H5Sget_simple_extent_ndims(space.get());
    if (!array.type || !properties || dimensions < 1 || dimensions > most_dimensions)
        throw mistake("not an array of 1 to 3 dimensions");
    if (H5Pget_layout(properties.get()) != H5D_CONTIGUOUS || H5Pget_external_count(properties.get()) != 0)
        throw mistake("not stored in one run of the file");

    array.shape.resize(static_cast<std::size_t>(dimensions));
    H5Sget_simple_extent_dims(space.get(), array.shape.data(), nullptr);
    std::size_t bytes = H5Tget_size(array.type.get());
    bool fits = bytes > 0;
    for (hsize_t size : array.shape) {
        fits = fits && !__builtin_mul_overflow(array.count, size, &array.count) &&
               !__builtin_mul_overflow(bytes, size, &bytes);
    }
    fits = fits && bytes <= size_ && H5Dget_storage_size(array.dataset.get()) == bytes;
    const haddr_t at = H5Dget_offset(array.dataset.get());
    if (!fits || (bytes > 0 && (at == HADDR_UNDEF || at > size_ - bytes)))
        throw mistake("larger than the file, or its bytes are not there");
    return array;
}

void Reader::read(const char* name, const Array& array, hid_t type, void* into) const {
    if (array.count > 0 && H5Dread(array.dataset.get(), type, H5S_ALL, H5S_ALL, H5P_DEFAULT, into) < 0)
        throw failure("'{}': HDF5 cannot read it", name);
}

std::vector<hsize_t> Reader::shape(const char* name) const { return open(name).shape; }

std::vector<std::string> Reader::texts(const char* name) const {
    const Array array = open(name);
    if (array.shape.size() != 1 || !is_fixed_text(array.type.get()))
        throw failure("'{}': not texts of fixed length", name);
    const std::size_t length = H5Tget_size(array.type.get());
    std::string padded(array.count * length, '\0');
    read(name, array, array.type.get(), padded.data());
    std::vector<std::string> texts;
    texts.reserve(array.count);
    for (std::size_t i = 0; i < array.count; ++i) texts.push_back(trimmed(padded.substr(i * length, length)));
    return texts;
}

template <class T>
std::vector<T> Reader::numbers(const char* name, std::span<const hsize_t> shape) const {
    const Array array = open(name);
    if (!std::ranges::equal(array.shape, shape))
        throw failure("'{}': dimensions [{}], [{}] were expected", name, fmt::join(array.shape, ", "),
                      fmt::join(shape, ", "));
    if (!holds_type<T>(array.type.get())) throw failure("'{}': not of the expected type of number", name);
    std::vector<T> values(array.count);
    read(name, array, memory_type<T>(), values.data());
    return values;
}
template std::vector<std::uint32_t> Reader::numbers(const char*, std::span<const hsize_t>) const;
template std::vector<std::int32_t> Reader::numbers(const char*, std::span<const hsize_t>) const;
template std::vector<std::uint64_t> Reader::numbers(const char*, std::span<const hsize_t>) const;
template std::vector<std::int64_t> Reader::numbers(const char*, std::span<const hsize_t>) const;
template std::vector<double> Reader::numbers(const char*, std::span<const hsize_t>) const;

}  // namespace tpx::formats::hdf5
