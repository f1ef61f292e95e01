// SPDX-License-Identifier: Apache-2.0
#include "lib/layout/list_items.hpp"

#include <algorithm>
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

std::optional<std::int64_t> item_of_list(const Config& config, std::string_view word) {
    const std::size_t point = std::min(word.rfind('.'), word.size() - 1);
    std::size_t number = 0;
    const auto [end, code] = std::from_chars(word.data() + point + 1, word.data() + word.size(), number);
    const auto list = config.find(word.substr(0, point));
    if (code != std::errc{} || end != word.data() + word.size() || list == config.end()) return std::nullopt;
    const auto* text = std::get_if<std::string>(&list->second);
    const std::vector<ConfigValue> items = text ? split_list(*text) : std::vector<ConfigValue>{};
    const auto* item = number < items.size() ? std::get_if<std::int64_t>(&items[number]) : nullptr;
    return item ? std::optional{*item} : std::nullopt;
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
