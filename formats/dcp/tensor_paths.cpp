// SPDX-License-Identifier: Apache-2.0
#include "formats/dcp/tensor_paths.hpp"

#include "formats/encodings/torch/value.hpp"

#include <fmt/ranges.h>

#include <charconv>
#include <string_view>
#include <unordered_map>

namespace tpx::formats {

using torch::Kind;
using torch::Value;

std::vector<TensorPath> tensor_paths(const Checkpoint& checkpoint) {
    std::unordered_map<std::string_view, std::uint32_t> numbers;
    const auto& tensors = checkpoint.catalogue.tensors;
    for (std::uint32_t t = 0; t < tensors.size(); ++t) numbers.emplace(tensors[t].name, t);
    std::vector<TensorPath> paths;
    for (const auto& [name, keys] : checkpoint.planner_data->entries()) {
        const auto number = name.is(Kind::string) ? numbers.find(name.as_string()) : numbers.end();
        if (number == numbers.end() || !keys.is(Kind::tuple)) continue;
        TensorPath& one = paths.emplace_back(TensorPath{number->second, {}});
        for (const Value key : keys.items())
            one.path.push_back(key.is(Kind::integer) ? std::to_string(key.as_int()) : std::string{key.as_string()});
    }
    return paths;
}

std::string joined(std::span<const std::string> keys) { return fmt::format("{}", fmt::join(keys, ".")); }

std::optional<std::int64_t> key_number(const std::string& text) {
    std::int64_t number = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    return error == std::errc{} && end == text.data() + text.size() ? std::optional{number} : std::nullopt;
}

}  // namespace tpx::formats
