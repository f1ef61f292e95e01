// SPDX-License-Identifier: Apache-2.0
#include "lib/layout/size_text.hpp"

#include "lib/layout/dims.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

namespace tpx {
namespace {

constexpr int deepest = 8;  // factors may depend on factors

bool is_in_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '.'; }

/// The alternative of the formula of `letter` that gives its size, or else the first one, without its condition; "" if
/// there is no formula.
std::string chosen_alternative(const Reading& reading, char letter) {
    constexpr std::string_view separator = " | ";
    const auto formulas = reading.family->dims.find(letter);
    const std::string* formula =
        formulas == reading.family->dims.end() ? nullptr : formula_for(formulas->second, reading.source());
    std::string first;
    for (std::string_view rest = formula ? std::string_view{*formula} : ""; !rest.empty();) {
        const std::string_view alternative = rest.substr(0, rest.find(separator));
        rest.remove_prefix(std::min(rest.size(), alternative.size() + separator.size()));
        const std::string value{alternative.substr(0, alternative.find(" if "))};
        if (reading.dims.evaluate(alternative, reading.config)) return value;
        if (first.empty()) first = value;
    }
    return first;
}

/// Calls `each(word)` for the words of `formula`, and `between(c)` for each character between them.
template <class Each, class Between>
void for_each_word(std::string_view formula, Each&& each, Between&& between) {
    for (std::size_t k = 0; k < formula.size();) {
        std::size_t end = k;
        while (end < formula.size() && is_in_word(formula[end])) ++end;
        if (end > k)
            each(formula.substr(k, end - k));
        else
            between(formula[end++]);
        k = end;
    }
}

bool is_letter(std::string_view word) {
    return word.size() == 1 && std::isalpha(static_cast<unsigned char>(word[0])) != 0;
}

/// `formula` with configuration keys in place of its factors.
std::string in_settings(const Reading& reading, std::string_view formula, int depth) {
    std::string text;
    const auto add = [&](std::string_view word) {
        const std::string own = is_letter(word) && depth < deepest ? chosen_alternative(reading, word[0]) : "";
        if (own.empty()) {
            text += word;
            return;
        }
        const std::string inner = in_settings(reading, own, depth + 1);
        const bool needs_brackets = inner.find(' ') != inner.npos && word.size() != formula.size();
        text += needs_brackets ? "(" + inner + ")" : inner;
    };
    for_each_word(formula, add, [&](char c) { text += c; });
    return text;
}

void add_settings(const Reading& reading, char letter, int depth, std::set<std::string>& found) {
    const auto add = [&](std::string_view word) {
        if (is_letter(word) && depth < deepest) return add_settings(reading, word[0], depth + 1, found);
        if (const auto value = reading.config.find(word); value != reading.config.end())
            found.insert(fmt::format("{} = {}", word, value_text(value->second)));
    };
    for_each_word(chosen_alternative(reading, letter), add, [](char) {});
}

}  // namespace

std::string size_text(const Reading& reading, std::string_view formula) {
    const std::string name = in_settings(reading, formula, 0);
    const auto value = reading.dims.evaluate(formula, reading.config);
    const bool is_number = std::ranges::all_of(name, [](unsigned char c) { return std::isdigit(c) != 0; });
    return is_number || !value ? name : fmt::format("{} = {}", name, *value);
}

std::set<std::string> size_settings(const Reading& reading, char letter) {
    std::set<std::string> found;
    add_settings(reading, letter, 0, found);
    return found;
}

}  // namespace tpx
