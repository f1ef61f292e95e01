// SPDX-License-Identifier: Apache-2.0
#include "lib/layout/dims.hpp"

#include "lib/layout/condition.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>

namespace tpx {
namespace {

constexpr Index largest_index = 1'000'000'000;

std::string_view trim(std::string_view text) {
    while (text.starts_with(' ')) text.remove_prefix(1);
    while (text.ends_with(' ')) text.remove_suffix(1);
    return text;
}

/// The text up to `separator`, trimmed; `text` keeps the rest.
std::string_view take_until(std::string_view& text, std::string_view separator) {
    const std::size_t at = text.find(separator);
    const std::string_view head = trim(text.substr(0, at));
    text = at == std::string_view::npos ? "" : text.substr(at + separator.size());
    return head;
}

/// Configurations are not trusted: a product that overflows has no value.
std::optional<Index> times(Index a, Index b) {
    Index product = 0;
    return __builtin_mul_overflow(a, b, &product) ? std::nullopt : std::optional{product};
}

std::optional<Index> plus(Index a, Index b) {
    Index sum = 0;
    return __builtin_add_overflow(a, b, &sum) ? std::nullopt : std::optional{sum};
}

std::optional<Index> quotient(Index a, Index b) { return b > 0 && a % b == 0 ? std::optional{a / b} : std::nullopt; }

bool truth(const ConfigValue& value) {
    if (const auto* flag = std::get_if<bool>(&value)) return *flag;
    if (const auto* number = std::get_if<std::int64_t>(&value)) return *number != 0;
    if (const auto* real = std::get_if<double>(&value)) return *real != 0;
    if (const auto* text = std::get_if<std::string>(&value)) return !text->empty();
    return false;
}

/// Whether all conditions, joined by '&', hold.
bool all_hold(const Config& config, std::string_view conditions) {
    while (!conditions.empty()) {
        if (!holds(config, take_until(conditions, "&"))) return false;
    }
    return true;
}

/// A number with a decimal point, such as "1.0".
std::optional<double> real_number(std::string_view text) {
    if (text.find('.') == std::string_view::npos) return std::nullopt;
    double number = 0;
    const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), number);
    return code == std::errc{} && end == text.data() + text.size() ? std::optional{number} : std::nullopt;
}

/// Whether one of the alternatives of `formula` is a number with a decimal point.
bool has_real(std::string_view formula) {
    while (!formula.empty()) {
        std::string_view alternative = take_until(formula, "|");
        if (real_number(take_until(alternative, " if "))) return true;
    }
    return false;
}

}  // namespace

std::string value_text(const ConfigValue& value) {
    if (const auto* flag = std::get_if<bool>(&value)) return *flag ? "true" : "false";
    if (const auto* number = std::get_if<std::int64_t>(&value)) return std::to_string(*number);
    if (const auto* real = std::get_if<double>(&value)) return fmt::format("{}", *real);
    if (const auto* text = std::get_if<std::string>(&value)) return *text;
    return "";
}

std::optional<Index> integer(const Config& config, std::string_view key) {
    const auto found = config.find(key);
    if (found == config.end()) return std::nullopt;
    const auto* number = std::get_if<std::int64_t>(&found->second);
    return number ? std::optional<Index>{*number} : std::nullopt;
}

bool holds(const Config& config, std::string_view condition) {
    const bool negated = condition.starts_with('!');
    if (negated) condition.remove_prefix(1);
    const std::string_view key = take_until(condition, "=");
    const auto found = config.find(key);
    if (found == config.end()) return negated;
    const bool is_null = std::holds_alternative<std::nullptr_t>(found->second);
    const bool is = condition.empty()                ? truth(found->second)
                    : is_null || condition == "null" ? is_null && condition == "null"
                                                     : value_text(found->second) == condition;
    return is != negated;
}

Dims::Dims(const Family& family, std::string_view source, const Config& config) { derive(family, source, config); }

void Dims::derive(const Family& family, std::string_view source, const Config& config) {
    // Formulas may contain other factors, so each round may make more of them known; one round per factor is enough.
    for (std::size_t round = 0; round < family.dims.size(); ++round) {
        for (const auto& [letter, formulas] : family.dims) {
            const std::string* formula = formula_for(formulas, source);
            if (!formula || sizes_.contains(letter) || family.varies(letter)) continue;
            if (const auto size = evaluate(*formula, config)) sizes_[letter] = *size;
        }
    }
}

void Dims::derive_layer(const Family& family, std::string_view source, const Config& config, const ListItems& lists,
                        int layer) {
    constexpr std::string_view of_layer = ".l.";
    const auto lookup = [&](std::string_view word) -> std::optional<ConfigValue> {
        if (word == "l") return std::int64_t{layer};
        if (word.size() == 1) {
            const auto size = (*this)[word[0]];
            if (size) return *size;
        }
        std::string key{word};
        if (const std::size_t at = key.find(of_layer); at != key.npos) key.replace(at + 1, 1, std::to_string(layer));
        const auto found = config.find(key);
        if (found == config.end()) return std::nullopt;
        return found->second;
    };
    // As in derive(), formulas may contain other factors.
    for (bool more = true; more;) {
        more = false;
        for (const auto& [letter, formulas] : family.dims) {
            const std::string* formula = sizes_.contains(letter) ? nullptr : layer_formula(family, letter, source);
            const auto size = formula ? evaluate_number(*formula, lookup, lists) : std::nullopt;
            if (!size || *size < 0) continue;
            sizes_[letter] = *size;
            more = true;
        }
    }
}

Dims Dims::of_layer(const Family& family, std::string_view source, const Config& config, const ListItems& lists,
                    int layer) const {
    Dims sizes = *this;
    sizes.derive_layer(family, source, config, lists, layer);
    return sizes;
}

std::optional<Index> Dims::operator[](char letter) const {
    const auto found = sizes_.find(letter);
    return found == sizes_.end() ? std::nullopt : std::optional{found->second};
}

std::optional<Index> Dims::evaluate(std::string_view formula, const Config& config, const Config& extra) const {
    const auto operand = [&](std::string_view word) -> std::optional<Index> {
        if (word.size() == 1 && std::isalpha(static_cast<unsigned char>(word[0]))) return (*this)[word[0]];
        Index number = 0;
        const auto [end, code] = std::from_chars(word.data(), word.data() + word.size(), number);
        if (code == std::errc{} && end == word.data() + word.size()) return number;
        if (const auto value = integer(extra, word)) return value;
        if (const auto value = integer(config, word)) return value;
        return item_of_list(config, word);
    };
    const auto product = [&](std::string_view text) -> std::optional<Index> {
        std::optional<Index> value = 1;
        char sign = '*';
        while (value && !text.empty()) {
            const std::size_t next = std::min(text.find_first_of("*/"), text.size());
            const std::optional<Index> factor = operand(trim(text.substr(0, next)));
            if (!factor) return std::nullopt;
            value = sign == '*' ? times(*value, *factor) : quotient(*value, *factor);
            sign = next < text.size() ? text[next] : '*';
            text.remove_prefix(std::min(next + 1, text.size()));
        }
        return value;
    };
    const auto sum = [&](std::string_view text) -> std::optional<Index> {
        std::optional<Index> value = text.empty() ? std::nullopt : std::optional<Index>{0};
        while (value && !text.empty()) {
            const std::optional<Index> term = product(take_until(text, "+"));
            value = term ? plus(*value, *term) : std::nullopt;
        }
        return value;
    };
    while (!formula.empty()) {
        std::string_view alternative = take_until(formula, "|");
        const std::string_view value = take_until(alternative, " if ");
        if (!all_hold(config, alternative)) continue;
        if (const auto result = sum(value)) return result;
    }
    return std::nullopt;
}

std::optional<ConfigValue> Dims::value(std::string_view formula, const Config& config) const {
    // If one alternative is a real number, the setting is never an integer: frameworks distinguish 1 from 1.0.
    const bool real = has_real(formula);
    auto value = plain_value(formula, config);
    const auto* number = value ? std::get_if<std::int64_t>(&*value) : nullptr;
    if (real && number) return static_cast<double>(*number);
    return value;
}

std::optional<ConfigValue> Dims::plain_value(std::string_view formula, const Config& config) const {
    while (!formula.empty()) {
        std::string_view alternative = take_until(formula, "|");
        const std::string_view text = take_until(alternative, " if ");
        if (!all_hold(config, alternative)) continue;
        if (const auto number = real_number(text)) return *number;
        if (text == "true" || text == "false") return text == "true";
        if (text == "null") return ConfigValue{nullptr};
        if (text.size() >= 2 && text.starts_with('\'') && text.ends_with('\''))
            return std::string{text.substr(1, text.size() - 2)};
        const auto found = config.find(text);
        if (found != config.end() && !std::holds_alternative<std::nullptr_t>(found->second)) return found->second;
        if (const auto number = evaluate(text, config)) return *number;
    }
    return std::nullopt;
}

const std::string* layer_formula(const Family& family, char letter, std::string_view source) {
    if (!family.varies(letter)) return nullptr;
    const auto& formulas = family.dims.at(letter);
    const auto found = formulas.find(std::string{source});
    return found == formulas.end() ? nullptr : &found->second;
}

std::set<Index> values_by_layer(const Dims& dims, std::string_view formula, const Family& family,
                                std::string_view source, const Config& config, Index layers) {
    if (const auto value = dims.evaluate(formula, config)) return {*value};
    const auto varies = [&](const auto& entry) { return layer_formula(family, entry.first, source) != nullptr; };
    if (std::ranges::none_of(family.dims, varies)) return {};
    const ListItems lists{config};
    std::set<Index> values;
    for (int layer = 0; layer < layers; ++layer) {
        const Dims sizes = dims.of_layer(family, source, config, lists, layer);
        if (const auto value = sizes.evaluate(formula, config)) values.insert(*value);
    }
    return values;
}

bool has_sizes_of_shapes(const Family& family, std::string_view source) {
    return std::ranges::any_of(family.dims, [&](const auto& entry) {
        return family.varies(entry.first) && !layer_formula(family, entry.first, source);
    });
}

std::optional<NameIndices> indices_of(const NameTemplate& name, NameIndices numbers, const Dims& dims) {
    const auto shifted = [&](char letter, std::optional<int>& number) {
        const NameTemplate::Range range = name.range(letter);
        if (range.letter == 0 || !number) return true;
        const auto bound = dims[range.letter];
        if (range.sign == '<') return !bound || *number < *bound;
        if (!bound || *bound < 0 || *bound > largest_index) return false;
        *number += static_cast<int>(range.sign == '-' ? *bound : -*bound);
        return *number >= 0;
    };
    if (!shifted('l', numbers.layer) || !shifted('e', numbers.expert)) return std::nullopt;
    return numbers;
}

std::optional<NameIndices> numbers_in(const NameTemplate& name, NameIndices indices, const Dims& dims) {
    const auto shifted = [&](char letter, std::optional<int>& index) {
        const NameTemplate::Range range = name.range(letter);
        if (range.letter == 0 || !index) return true;
        const auto bound = dims[range.letter];
        if (!bound) return range.sign == '<';
        if (range.sign != '<' && (*bound < 0 || *bound > largest_index)) return false;
        if (range.sign != '+' && (range.sign == '-') != (*index >= *bound)) return false;
        if (range.sign != '<') *index += static_cast<int>(range.sign == '-' ? -*bound : *bound);
        return true;
    };
    if (!shifted('l', indices.layer) || !shifted('e', indices.expert)) return std::nullopt;
    return indices;
}

std::vector<std::string> formula_words(std::string_view formula) {
    std::vector<std::string> words;
    bool in_word = false;
    for (const char c : formula) {
        const bool continues = in_word;
        in_word = std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '.';
        if (in_word && !continues) words.emplace_back();
        if (in_word) words.back() += c;
    }
    return words;
}

}  // namespace tpx
