// SPDX-License-Identifier: Apache-2.0
#include "formats/encodings/hdf5/survey_here.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

namespace tpx::formats::hdf5 {
namespace {

constexpr std::size_t most_items = std::size_t{1} << 20;

std::string trimmed(const char* text, std::size_t size, H5T_str_t padding) {
    std::string_view view{text, size};
    if (padding == H5T_STR_SPACEPAD) {
        const auto last = view.find_last_not_of(' ');
        return std::string{view.substr(0, last == view.npos ? 0 : last + 1)};
    }
    return std::string{view.substr(0, view.find('\0'))};
}

bool read_texts(hid_t attribute, hid_t type, hid_t space, std::size_t count, AttributeValue& value) {
    if (H5Tis_variable_str(type) > 0) {
        std::vector<char*> texts(count, nullptr);
        const Type memory{H5Tcopy(H5T_C_S1)};
        H5Tset_size(memory.get(), H5T_VARIABLE);
        H5Tset_cset(memory.get(), H5Tget_cset(type));
        if (H5Aread(attribute, memory.get(), texts.data()) < 0) return false;
        for (const char* text : texts) value.texts.emplace_back(text == nullptr ? "" : text);
        H5Dvlen_reclaim(memory.get(), space, H5P_DEFAULT, texts.data());
        return true;
    }
    const std::size_t size = H5Tget_size(type);
    std::vector<char> bytes(count * size + 1);
    if (H5Aread(attribute, type, bytes.data()) < 0) return false;
    for (std::size_t k = 0; k < count; ++k)
        value.texts.push_back(trimmed(bytes.data() + k * size, size, H5Tget_strpad(type)));
    return true;
}

bool read_content(hid_t attribute, std::size_t count, AttributeValue& value) {
    const Type type{H5Aget_type(attribute)};
    const Space space{H5Aget_space(attribute)};
    switch (value.kind) {
        case AttributeValue::Kind::texts:
            return read_texts(attribute, type.get(), space.get(), count, value);
        case AttributeValue::Kind::integers:
            value.integers.resize(count);
            if (H5Tget_class(type.get()) == H5T_ENUM) {
                // HDF5 converts an enumeration only to itself; h5py's bool is an enumeration.
                std::vector<std::int8_t> bytes(count);
                if (H5Aread(attribute, type.get(), bytes.data()) < 0) return false;
                std::ranges::copy(bytes, value.integers.begin());
                return true;
            }
            return H5Aread(attribute, H5T_NATIVE_INT64, value.integers.data()) >= 0;
        case AttributeValue::Kind::reals:
            value.reals.resize(count);
            return H5Aread(attribute, H5T_NATIVE_DOUBLE, value.reals.data()) >= 0;
        case AttributeValue::Kind::other:
            return false;
    }
    return false;
}

AttributeValue::Kind kind_of(hid_t attribute) {
    const Type type{H5Aget_type(attribute)};
    switch (H5Tget_class(type.get())) {
        case H5T_STRING:
            return AttributeValue::Kind::texts;
        case H5T_INTEGER:
            return AttributeValue::Kind::integers;
        case H5T_ENUM:
            return H5Tget_size(type.get()) == 1 ? AttributeValue::Kind::integers : AttributeValue::Kind::other;
        case H5T_FLOAT:
            return AttributeValue::Kind::reals;
        default:
            return AttributeValue::Kind::other;
    }
}

/// Returns false if the content cannot be read. The kind is `other` for content that an AttributeValue cannot
/// represent.
bool read_attribute(hid_t attribute, AttributeValue& value) {
    value.kind = kind_of(attribute);
    const Space space{H5Aget_space(attribute)};
    const hssize_t count = H5Sget_simple_extent_npoints(space.get());
    const int axes = H5Sget_simple_extent_ndims(space.get());
    value.is_list = axes == 1;
    const bool can_be_kept = count >= 0 && count <= static_cast<hssize_t>(most_items) && axes <= 1;
    if (!can_be_kept) value.kind = AttributeValue::Kind::other;
    if (value.kind == AttributeValue::Kind::other || count == 0) return true;
    return read_content(attribute, static_cast<std::size_t>(count), value);
}

herr_t add_attribute(hid_t object, const char* name, const H5A_info_t*, void* list) {
    const Attribute attribute{H5Aopen(object, name, H5P_DEFAULT)};
    if (!attribute) return -1;
    AttributeValue value{.name = name};
    if (!read_attribute(attribute.get(), value)) return -1;
    static_cast<Attributes*>(list)->push_back(std::move(value));
    return 0;
}

}  // namespace

bool read_attributes(hid_t object, Attributes& attributes) {
    hsize_t index = 0;
    return H5Aiterate2(object, H5_INDEX_NAME, H5_ITER_INC, &index, add_attribute, &attributes) >= 0;
}

}  // namespace tpx::formats::hdf5
