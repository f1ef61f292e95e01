// SPDX-License-Identifier: Apache-2.0
#include "formats/encodings/torch/numpy.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstring>

namespace tpx::torch {
namespace {

struct NumpyType {
    std::string name;
    std::size_t size = 0;
    bool big_endian = false;
};

bool is_numpy(Value callable, std::string_view name) {
    if (!callable.is(Kind::global) || callable.as_global().name != name) return false;
    return callable.as_global().module.starts_with("numpy");
}

/// numpy.dtype('f8', False, True) with the state (3, '<', ...).
std::optional<NumpyType> type_of(Value value) {
    if (!value.is(Kind::object) || !is_numpy(value.as_object().callable, "dtype")) return std::nullopt;
    const auto args = value.as_object().args.items();
    if (args.empty() || !args[0].is(Kind::string)) return std::nullopt;
    const std::string_view word = args[0].as_string();
    NumpyType type{std::string{word}, 0, false};
    if (word.size() < 2 || std::string_view{"biufc"}.find(word[0]) == std::string_view::npos) return std::nullopt;
    const auto [end, error] = std::from_chars(word.data() + 1, word.data() + word.size(), type.size);
    if (error != std::errc{} || end != word.data() + word.size() || type.size == 0 || type.size > 16)
        return std::nullopt;
    type.name = word[0] == 'b' ? "bool" : fmt::format("{}{}", word[0], type.size * 8);
    const Value state = value.as_object().state;
    type.big_endian = state.is(Kind::tuple) && state.items().size() > 1 && state.items()[1].is(Kind::string) &&
                      state.items()[1].as_string() == ">";
    return type;
}

void make_little_endian(std::string& bytes, const NumpyType& type) {
    const std::size_t size = type.name[0] == 'c' ? type.size / 2 : type.size;
    if (!type.big_endian || size == 0) return;
    for (std::size_t at = 0; at + size <= bytes.size(); at += size)
        std::reverse(bytes.begin() + static_cast<std::ptrdiff_t>(at),
                     bytes.begin() + static_cast<std::ptrdiff_t>(at + size));
}

std::optional<NumpyValue> scalar(std::span<const Value> args) {
    if (args.size() != 2 || !args[1].is(Kind::bytes)) return std::nullopt;
    const auto type = type_of(args[0]);
    if (!type || args[1].as_bytes().size() != type->size) return std::nullopt;
    NumpyValue value{.scalar = true, .dtype = type->name, .bytes = std::string{args[1].as_bytes()}};
    make_little_endian(value.bytes, *type);
    return value;
}

/// Elements of an array in column-major (Fortran) order, in row-major order.
std::string in_row_major_order(const std::string& bytes, const Shape& shape, std::size_t size) {
    const int rank = shape.size();
    Tuple<Index> index = shape;
    for (Index& at : index) at = 0;
    std::string ordered;
    ordered.reserve(bytes.size());
    for (std::size_t n = bytes.size() / size; n > 0; --n) {
        Index from = 0;
        for (int axis = rank; axis-- > 0;) from = from * shape[axis] + index[axis];
        ordered.append(bytes, static_cast<std::size_t>(from) * size, size);
        for (int axis = rank; axis-- > 0 && ++index[axis] == shape[axis];) index[axis] = 0;
    }
    return ordered;
}

/// The state of an array: (1, shape, dtype, is Fortran order, bytes).
std::optional<NumpyValue> array(Value state) {
    if (!state.is(Kind::tuple) || state.items().size() != 5) return std::nullopt;
    const auto items = state.items();
    const auto type = type_of(items[2]);
    if (!type || !items[1].is(Kind::tuple) || !items[4].is(Kind::bytes)) return std::nullopt;
    NumpyValue value{.dtype = type->name, .bytes = std::string{items[4].as_bytes()}};
    for (const Value size : items[1].items()) {
        if (!size.is(Kind::integer) || size.as_int() < 0 || value.shape.size() == max_rank) return std::nullopt;
        value.shape.push_back(size.as_int());
    }
    const Index count = checked_volume(value.shape);
    if (count < 0 || value.bytes.size() % type->size != 0 ||
        static_cast<std::uint64_t>(count) != value.bytes.size() / type->size)
        return std::nullopt;
    if (items[3].is(Kind::boolean) && items[3].as_bool())
        value.bytes = in_row_major_order(value.bytes, value.shape, type->size);
    make_little_endian(value.bytes, *type);
    return value;
}

template <class Number>
Number read(const std::string& bytes) {
    Number number{};
    std::memcpy(&number, bytes.data(), sizeof number);
    return number;
}

}  // namespace

std::optional<NumpyValue> numpy_value(Value object) {
    if (!object.is(Kind::object)) return std::nullopt;
    const torch::Object& parts = object.as_object();
    if (is_numpy(parts.callable, "scalar")) return scalar(parts.args.items());
    if (is_numpy(parts.callable, "_reconstruct")) return array(parts.state);
    return std::nullopt;
}

std::optional<std::variant<std::int64_t, double>> numpy_number(const NumpyValue& value) {
    using Number = std::variant<std::int64_t, double>;
    const std::string& bytes = value.bytes;
    if (value.dtype == "f64") return Number{read<double>(bytes)};
    if (value.dtype == "f32") return Number{double{read<float>(bytes)}};
    if (value.dtype == "i64") return Number{read<std::int64_t>(bytes)};
    if (value.dtype == "i32") return Number{std::int64_t{read<std::int32_t>(bytes)}};
    if (value.dtype == "i16") return Number{std::int64_t{read<std::int16_t>(bytes)}};
    if (value.dtype == "i8") return Number{std::int64_t{read<std::int8_t>(bytes)}};
    if (value.dtype == "u32") return Number{std::int64_t{read<std::uint32_t>(bytes)}};
    if (value.dtype == "u16") return Number{std::int64_t{read<std::uint16_t>(bytes)}};
    if (value.dtype == "u8" || value.dtype == "bool") return Number{std::int64_t{read<std::uint8_t>(bytes)}};
    return std::nullopt;
}

}  // namespace tpx::torch
