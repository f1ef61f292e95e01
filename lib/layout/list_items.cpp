// SPDX-License-Identifier: Apache-2.0
#include "lib/layout/list_items.hpp"

#include <charconv>
#include <cstdint>

namespace tpx {
namespace {

std::vector<std::string_view> words_between_commas(std::string_view text) {
    std::vector<std::string_view> words;
    if (text.empty()) return words;
    while (true) {
        const std::size_t comma = text.find(',');
        words.push_back(text.substr(0, comma));
        if (comma == text.npos) return words;
        text.remove_prefix(comma + 1);
    }
}

}  // namespace

std::vector<ConfigValue> split_list(std::string_view text) {
    const std::vector<std::string_view> words = words_between_commas(text);
    std::vector<ConfigValue> numbers;
    for (const std::string_view word : words) {
        std::int64_t number = 0;
        const auto [end, code] = std::from_chars(word.data(), word.data() + word.size(), number);
        if (code != std::errc{} || end != word.data() + word.size()) break;
        numbers.emplace_back(number);
    }
    if (numbers.size() == words.size()) return numbers;
    std::vector<ConfigValue> items;
    for (const std::string_view word : words) items.emplace_back(std::string{word});
    return items;
}

ListItems::ListItems(const Config& config) {
    for (const auto& [key, value] : config) {
        const auto* text = std::get_if<std::string>(&value);
        if (text && text->find(',') != text->npos) lists_.emplace(key, split_list(*text));
    }
}

const std::vector<ConfigValue>* ListItems::find(std::string_view key) const {
    const auto found = lists_.find(key);
    return found == lists_.end() ? nullptr : &found->second;
}

}  // namespace tpx
