// SPDX-License-Identifier: Apache-2.0
#include "formats/convert/numbered_layers.hpp"

#include "lib/core/counted.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <string_view>
#include <utility>

namespace tpx::formats {
namespace {

/// The number of layers in the configuration of a model without rules.
std::optional<Index> configured_layers(const Config& config) {
    for (const auto& [key, value] : config) {
        const bool counts = key == "num_hidden_layers" || key == "num_layers" || key == "n_layer" ||
                            (key.ends_with(".block_count") && !key.starts_with("clip."));
        const auto* number = std::get_if<std::int64_t>(&value);
        if (counts && number != nullptr) return *number;
    }
    return std::nullopt;
}

/// The part of a tensor's name before the layer number, and the number.
std::optional<std::pair<std::string_view, Index>> layer_in(std::string_view name) {
    constexpr std::array<std::string_view, 6> words{"layers", "layer", "h", "blocks", "block", "blk"};
    for (std::size_t begin = 0; begin < name.size();) {
        const std::size_t dot = std::min(name.find('.', begin), name.size());
        const std::string_view word = name.substr(begin, dot - begin);
        if (std::ranges::find(words, word) != words.end() && dot < name.size()) {
            const std::string_view rest = name.substr(dot + 1);
            Index number = 0;
            const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), number);
            const bool whole = error == std::errc{} && end != rest.data() + rest.size() && *end == '.';
            if (whole && number >= 0) return std::pair{name.substr(0, dot), number};
        }
        begin = dot + 1;
    }
    return std::nullopt;
}

}  // namespace

std::string ranges_text(const std::vector<Index>& numbers) {
    std::vector<std::string> texts;
    for (std::size_t begin = 0; begin < numbers.size();) {
        std::size_t end = begin + 1;
        while (end < numbers.size() && numbers[end] == numbers[end - 1] + 1) ++end;
        texts.push_back(end == begin + 1 ? fmt::format("{}", numbers[begin])
                                         : fmt::format("{} to {}", numbers[begin], numbers[end - 1]));
        begin = end;
    }
    return fmt::format("{}", fmt::join(texts, ", "));
}

std::string layers_text(const std::vector<Index>& numbers) {
    return fmt::format("layer{} {}", numbers.size() == 1 ? "" : "s", ranges_text(numbers));
}

std::optional<std::string> absent_layers(const std::set<Index>& present, Index count, bool configured) {
    constexpr Index most = 1'000'000;  // layers in any plausible configuration
    if (count > most) return fmt::format("layers: the configuration has {}, more than any model", count);
    std::vector<Index> absent;
    for (Index layer = 0; layer < count; ++layer)
        if (!present.contains(layer)) absent.push_back(layer);
    if (absent.empty()) return std::nullopt;
    return fmt::format("{}: no tensor is stored; {} {}", layers_text(absent),
                       configured ? "the configuration has" : "the tensors belong to",
                       counted(static_cast<std::uint64_t>(count), "layer"));
}

std::vector<std::string> missing_numbered_layers(const Source& source) {
    std::vector<std::string> lines;
    const std::string& why = source.reading.why_not;
    if (!source.reading.config.empty() && why.find(" lacks tensor '") != why.npos) lines.push_back(why);
    const auto count = configured_layers(source.reading.config);
    if (!count) return lines;
    std::map<std::string_view, std::pair<std::size_t, std::set<Index>>> stacks;
    const auto add = [&](std::string_view name) {
        const auto found = layer_in(name);
        if (!found) return;
        auto& [tensors, layers] = stacks[found->first];
        ++tensors;
        layers.insert(found->second);
    };
    for (const Tensor& tensor : source.checkpoint.catalogue.tensors) add(tensor.name);
    for (const OpaqueTensor& tensor : source.checkpoint.opaque) add(tensor.name);
    const auto largest = std::ranges::max_element(stacks, {}, [](const auto& stack) { return stack.second.first; });
    if (largest == stacks.end() || static_cast<Index>(largest->second.second.size()) >= *count) return lines;
    if (auto line = absent_layers(largest->second.second, *count, true)) lines.push_back(*std::move(line));
    return lines;
}

}  // namespace tpx::formats
