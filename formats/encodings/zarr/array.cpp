// SPDX-License-Identifier: Apache-2.0
#include "formats/encodings/zarr/array.hpp"

#include "lib/core/error.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>
#include <utility>

namespace tpx::formats::zarr {
namespace {

using Json = nlohmann::json;

constexpr std::size_t shown = 60;  // characters of an invalid value in a message

std::string text_of(const Json& value) {
    std::string text = value.dump(-1, ' ', true, Json::error_handler_t::replace);
    if (text.size() > shown) text = text.substr(0, shown) + "...";
    return text;
}

const Json& member(const Json& json, const char* key) {
    const auto found = json.find(key);
    if (found == json.end()) throw failure("'{}' is missing", key);
    return *found;
}

Shape shape_of(const Json& json, const char* key) {
    constexpr auto most = static_cast<std::uint64_t>(std::numeric_limits<Index>::max());
    const Json& list = member(json, key);
    if (!list.is_array()) throw failure("{} is {}, not a list of sizes", key, text_of(list));
    if (list.size() > static_cast<std::size_t>(max_rank))
        throw failure("{} has {} axes (at most {})", key, list.size(), max_rank);
    Shape shape;
    for (const Json& size : list) {
        if (!size.is_number_unsigned() || size.get<std::uint64_t>() > most)
            throw failure("{} is {}, not a list of sizes", key, text_of(list));
        shape.push_back(static_cast<Index>(size.get<std::uint64_t>()));
    }
    return shape;
}

/// NumPy's names, without the byte order.
constexpr std::array<std::pair<std::string_view, DType>, 11> types{{{"b1", DType::boolean},
                                                                    {"u1", DType::u8},
                                                                    {"i1", DType::i8},
                                                                    {"i2", DType::i16},
                                                                    {"i4", DType::i32},
                                                                    {"i8", DType::i64},
                                                                    {"f2", DType::f16},
                                                                    {"f4", DType::f32},
                                                                    {"f8", DType::f64},
                                                                    {"c8", DType::c64},
                                                                    {"c16", DType::c128}}};
constexpr std::string_view bf16_name = "bfloat16";  // NumPy has no bfloat16

std::string dtype_name(DType dtype) {
    if (dtype == DType::bf16) return std::string{bf16_name};
    const auto* type = std::ranges::find(types, dtype, &decltype(types)::value_type::second);
    if (type == types.end())
        throw failure("the zarr backend cannot store {}; use --dtype bf16 or --format torch_dist", name(dtype));
    return fmt::format("{}{}", itemsize(dtype) == 1 ? '|' : '<', type->first);
}

Json sizes_of(const Shape& shape) {
    Json list = Json::array();
    for (const Index size : shape) list.push_back(size);
    return list;
}

DType dtype_of(const Json& json) {
    const Json& value = member(json, "dtype");
    const std::string name = value.is_string() ? value.get<std::string>() : std::string{};
    if (name == bf16_name) return DType::bf16;
    const std::string_view rest = name.empty() ? std::string_view{} : std::string_view{name}.substr(1);
    const auto* type = std::ranges::find(types, rest, &decltype(types)::value_type::first);
    if (type == types.end() || std::string_view{"<|>"}.find(name[0]) == std::string_view::npos)
        throw failure("dtype {} is unknown", text_of(value));
    if (name[0] == '>' && itemsize(type->second) > 1)
        throw failure("dtype '{}' is big-endian; only little-endian arrays are read", name);
    return type->second;
}

/// Throws Error unless chunks are stored as Megatron-core stores them: raw and in C order.
void check_storage(const Json& json) {
    const Json& version = member(json, "zarr_format");
    if (version != 2) throw failure("zarr_format is {}; only version 2 is read", text_of(version));
    const Json& compressor = member(json, "compressor");
    if (!compressor.is_null())
        throw failure("chunks are compressed ({}); only uncompressed chunks are read", text_of(compressor));
    const auto filters = json.find("filters");
    if (filters != json.end() && !filters->is_null() && !(filters->is_array() && filters->empty()))
        throw failure("chunks are filtered ({}); only unfiltered chunks are read", text_of(*filters));
    const Json& order = member(json, "order");
    if (order != "C") throw failure("order is {}; only C order is read", text_of(order));
}

void check_chunk(const ZarrArray& array) {
    if (array.chunk.size() != array.shape.size())
        throw failure("chunks and shape differ in length: {} and {}", array.chunk.size(), array.shape.size());
    if (checked_volume(array.shape) < 0) throw failure("shape {} is too large", to_string(array.shape));
    const Index elements = checked_volume(array.chunk);
    if (elements < 0 || elements > std::numeric_limits<Index>::max() / itemsize(array.dtype))
        throw failure("chunks of shape {} are too large", to_string(array.chunk));
    if (elements == 0 && volume(array.shape) > 0)
        throw failure("chunks of shape {} have no elements", to_string(array.chunk));
}

}  // namespace

ZarrArray parse_zarr_array(std::string_view text) {
    static constexpr int most_levels =
        16;  // text_of() is recursive, and untrusted files may nest half a million levels
    const auto check_level = [](int level, Json::parse_event_t, Json&) {
        if (level > most_levels) throw failure("nested deeper than {} levels", most_levels);
        return true;
    };
    const Json json = Json::parse(text, check_level, false);
    if (!json.is_object()) throw failure("not a JSON object");
    check_storage(json);
    ZarrArray array;
    array.dtype = dtype_of(json);
    array.shape = shape_of(json, "shape");
    array.chunk = shape_of(json, "chunks");
    check_chunk(array);
    const auto separator = json.find("dimension_separator");
    if (separator != json.end() && *separator != "." && *separator != "/")
        throw failure("dimension_separator is {}; \".\" and \"/\" are read", text_of(*separator));
    if (separator != json.end() && *separator == "/") array.separator = '/';
    const auto fill = json.find("fill_value");
    if (fill != json.end() && !fill->is_null()) array.fill = text_of(*fill);
    return array;
}

std::string write_zarr_array(const ZarrArray& array) {
    const Json json{{"chunks", sizes_of(array.chunk)}, {"compressor", nullptr}, {"dtype", dtype_name(array.dtype)},
                    {"fill_value", nullptr},           {"filters", nullptr},    {"order", "C"},
                    {"shape", sizes_of(array.shape)},  {"zarr_format", 2}};
    return json.dump(4);  // keys are sorted
}

std::uint64_t chunk_bytes(const ZarrArray& array) {
    return static_cast<std::uint64_t>(volume(array.chunk)) * static_cast<std::uint64_t>(itemsize(array.dtype));
}

Shape chunk_grid(const ZarrArray& array) {
    Shape grid;
    for (int axis = 0; axis < array.shape.size(); ++axis) {
        const Index size = array.shape[axis];
        const Index chunk = std::max<Index>(array.chunk[axis], 1);
        grid.push_back(size / chunk + (size % chunk != 0 ? 1 : 0));
    }
    return grid;
}

std::optional<Shape> chunk_index(std::string_view name, const ZarrArray& array) {
    Shape index;
    const int axes = std::max(array.shape.size(), 1);  // the chunk of a scalar is called 0
    for (int axis = 0; axis < axes; ++axis) {
        const std::string_view number = name.substr(0, axis + 1 < axes ? name.find(array.separator) : name.npos);
        Index value = 0;
        const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), value);
        const bool canonical = number.size() == 1 || !number.starts_with('0');
        if (error != std::errc{} || end != number.data() + number.size() || value < 0 || !canonical)
            return std::nullopt;
        if (axis + 1 < axes && number.size() == name.size()) return std::nullopt;
        name.remove_prefix(std::min(number.size() + 1, name.size()));
        index.push_back(value);
    }
    if (array.shape.empty()) return index[0] == 0 ? std::optional{Shape{}} : std::nullopt;
    return index;
}

std::string chunk_name(const Shape& index) {
    return index.empty() ? "0" : fmt::format("{}", fmt::join(index.begin(), index.end(), "."));
}

Box chunk_box(const Shape& index, const ZarrArray& array) {
    Box box;
    for (int axis = 0; axis < array.shape.size(); ++axis) {
        const Index begin = index[axis] * array.chunk[axis];
        box.push_back({begin, begin + std::min(array.chunk[axis], array.shape[axis] - begin)});
    }
    return box;
}

}  // namespace tpx::formats::zarr
