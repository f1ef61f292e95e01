// SPDX-License-Identifier: Apache-2.0
#include "formats/encodings/file_blocks.hpp"
#include "formats/encodings/safetensors/header.hpp"
#include "lib/core/error.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>

namespace tpx::formats::safetensors {
namespace {

/// Position of `dtype` in the reference library's list of dtypes; the last ones come first in a file.
int order(DType dtype) {
    using enum DType;
    constexpr std::array listed{boolean, f4,          f6_e2m3,     f6_e3m2, u8,  i8,  f8_e5m2, f8_e4m3,
                                f8_e8m0, f8_e4m3fnuz, f8_e5m2fnuz, i16,     u16, f16, bf16,    i32,
                                u32,     f32,         c64,         f64,     i64, u64};
    return static_cast<int>(std::ranges::find(listed, dtype) - listed.begin());
}

}  // namespace

std::string json_string(const std::string& text) {
    try {
        return nlohmann::json(text).dump();
    } catch (const nlohmann::json::exception&) {
        throw failure("'{}': not UTF-8", text);
    }
}

std::uint64_t arrange(std::span<Entry> entries) {
    std::ranges::sort(entries, [](const Entry& a, const Entry& b) {
        const int first = order(a.dtype), second = order(b.dtype);
        return first != second ? first > second : a.name < b.name;
    });
    std::uint64_t end = 0;
    for (Entry& entry : entries) {
        entry.begin = end;
        end += payload_size(entry.dtype, entry.shape);
        entry.end = end;
    }
    return end;
}

std::string write_header(const Metadata& metadata, std::span<const Entry> entries, std::optional<std::uint64_t> place) {
    constexpr std::uint64_t before = 8;  // the length
    std::string json = "{";
    for (const auto& [key, value] : metadata)
        json +=
            fmt::format("{}{}:{}", json.size() == 1 ? "\"__metadata__\":{" : ",", json_string(key), json_string(value));
    if (!metadata.empty()) json += '}';
    for (const Entry& entry : entries) {
        fmt::format_to(std::back_inserter(json), "{}{}:{{\"dtype\":\"{}\",\"shape\":[{}],\"data_offsets\":[{},{}]}}",
                       json.size() == 1 ? "" : ",", json_string(entry.name), info(entry.dtype).safetensors,
                       fmt::join(entry.shape.begin(), entry.shape.end(), ","), entry.begin, entry.end);
    }
    json += '}';
    json.resize((json.size() + 7) / 8 * 8, ' ');
    const std::uint64_t longer = place ? json.size() + gap_to(before + json.size(), *place) : 0;
    if (longer <= max_header_bytes) json.resize(std::max<std::uint64_t>(json.size(), longer), ' ');
    if (json.size() > max_header_bytes)
        throw failure("a header of {} bytes, at most {} are allowed: choose a smaller shard size", json.size(),
                      max_header_bytes);
    std::string bytes(before, '\0');
    for (int k = 0; k < 8; ++k) bytes[k] = static_cast<char>(json.size() >> 8 * k & 0xff);
    return bytes + json;
}

}  // namespace tpx::formats::safetensors
