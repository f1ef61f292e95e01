// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/encodings/hdf5/survey.hpp"
#include "lib/core/error.hpp"

#include <cstring>
#include <type_traits>

namespace tpx::formats::hdf5 {

/// Serializes values back to back, for a reader on the same machine.
class Packer {
public:
    template <class... Values>
    void operator()(const Values&... values) {
        (add(values), ...);
    }
    const std::string& bytes() const { return bytes_; }

private:
    template <class T>
    void add(const T& value) {
        if constexpr (std::is_arithmetic_v<T> || std::is_enum_v<T>) {
            bytes_.append(reinterpret_cast<const char*>(&value), sizeof value);
        } else {
            pack(*this, value);
        }
    }
    void add(const std::string& text) {
        add(text.size());
        bytes_ += text;
    }
    template <class T>
    void add(const std::vector<T>& list) {
        add(list.size());
        for (const T& item : list) add(item);
    }
    template <class T>
    void add(const std::optional<T>& value) {
        add(value.has_value());
        add(value.value_or(T{}));
    }

    std::string bytes_;
};

/// Deserializes what a Packer has written. Throws Error if there are too few bytes.
class Unpacker {
public:
    explicit Unpacker(std::string_view bytes) : left_{bytes} {}

    template <class... Values>
    void operator()(Values&... values) {
        (get(values), ...);
    }

private:
    template <class T>
    void get(T& value) {
        if constexpr (std::is_arithmetic_v<T> || std::is_enum_v<T>) {
            std::memcpy(&value, take(sizeof value).data(), sizeof value);
        } else {
            pack(*this, value);
        }
    }
    void get(std::string& text) {
        std::size_t size = 0;
        get(size);
        text = take(size);
    }
    template <class T>
    void get(std::vector<T>& list) {
        std::size_t size = 0;
        get(size);
        if (size > left_.size()) throw failure("HDF5 returned fewer bytes than it announced");
        list.resize(size);
        for (T& item : list) get(item);
    }
    template <class T>
    void get(std::optional<T>& value) {
        bool has = false;
        T content{};
        get(has);
        get(content);
        if (has) value = content;
    }
    std::string_view take(std::size_t size) {
        if (size > left_.size()) throw failure("HDF5 returned fewer bytes than it announced");
        const std::string_view taken = left_.substr(0, size);
        left_.remove_prefix(size);
        return taken;
    }

    std::string_view left_;
};

/// Visits the fields of a type in order; `archive` is a Packer or an Unpacker.
template <class Archive, class T>
requires std::same_as<std::remove_const_t<T>, AttributeValue>
void pack(Archive& archive, T& a) { archive(a.name, a.kind, a.is_list, a.texts, a.integers, a.reals); }
template <class Archive, class T>
requires std::same_as<std::remove_const_t<T>, GroupFacts>
void pack(Archive& archive, T& g) { archive(g.path, g.attributes); }
template <class Archive, class T>
requires std::same_as<std::remove_const_t<T>, DatasetFacts>
void pack(Archive& archive, T& d) {
    archive(d.path, d.refusal, d.kind, d.dtype, d.is_ambiguous, d.item, d.part, d.swapped, d.shape, d.storage, d.offset,
            d.written, d.chunk_shape, d.filters, d.scale_offset, d.edges_are_plain, d.chunks, d.fill, d.attributes);
}
template <class Archive, class T>
requires std::same_as<std::remove_const_t<T>, BrokenLink>
void pack(Archive& archive, T& l) { archive(l.path, l.target); }
template <class Archive, class T>
requires std::same_as<std::remove_const_t<T>, ScaleOffset>
void pack(Archive& archive, T& s) { archive(s.is_identity, s.is_real, s.is_big_endian, s.item, s.decimals, s.fill); }
template <class Archive, class T>
requires std::same_as<std::remove_const_t<T>, Survey>
void pack(Archive& archive, T& s) { archive(s.groups, s.datasets, s.broken_links); }

}  // namespace tpx::formats::hdf5
