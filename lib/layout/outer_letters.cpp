// SPDX-License-Identifier: Apache-2.0
#include "lib/layout/outer_letters.hpp"

#include "lib/core/error.hpp"
#include "lib/layout/dims.hpp"

#include <algorithm>

namespace tpx {
namespace {

/// The factors of `part` at the '+' of `axes`: those that are on no axis.
std::vector<char> brought_letters(const OuterTensor& part, const std::vector<Axis>& axes) {
    std::vector<char> letters;
    for (const Axis& axis : part.axes)
        for (const Token token : axis) {
            const bool elsewhere = std::ranges::any_of(
                axes, [&](const Axis& other) { return std::ranges::count(other, token.letter, &Token::letter) > 0; });
            if (!elsewhere) letters.push_back(token.letter);
        }
    return letters;
}

}  // namespace

std::vector<Axis> renamed(std::vector<Axis> axes, const Letters& letters) {
    for (Axis& axis : axes)
        for (Token& token : axis)
            if (token.letter != '+') token.letter = letters.at(token.letter);
    return axes;
}

std::vector<Axis> declared_axes(std::size_t count) {
    std::vector<Axis> axes;
    for (std::size_t k = 0; k < count; ++k) axes.push_back({{static_cast<char>('a' + k)}});
    return axes;
}

std::optional<Letters> OuterLetters::of(const Tensor& tensor, const Shape& shape, const std::vector<Axis>& axes,
                                        const std::vector<const OuterTensor*>& parts) {
    Finding found;
    for (std::size_t k = 0; k < axes.size(); ++k)
        if (!add_axis(found, shape[static_cast<int>(k)], k, axes, parts, tensor)) return std::nullopt;
    return found.letters;
}

/// Adds the factors of axis `k`.
bool OuterLetters::add_axis(Finding& found, Index length, std::size_t k, const std::vector<Axis>& axes,
                            const std::vector<const OuterTensor*>& parts, const Tensor& tensor) {
    Index rest = length;
    std::string unknown;  // the formula of a size that is unknown
    char last = 0;
    bool has_parts = false;
    for (const Token token : axes[k]) {
        const auto formula = outer_.dims.find(token.letter);
        if (token.letter == '+') {
            has_parts = true;
        } else if (formula == outer_.dims.end()) {
            if (last != 0) return false;
            last = token.letter;
        } else {
            const auto size = Dims{}.evaluate(formula->second, config_);
            if (size && (*size <= 0 || rest % *size != 0))
                throw failure("tensor '{}': shape {}: {} does not divide the length of axis {}", tensor.name,
                              to_string(tensor.shape), known_alternative(formula->second), k);
            if (!size) unknown = formula->second;
            if (size) rest /= *size;
            if (!add(found, token.letter, size ? std::to_string(*size) : formula->second)) return false;
        }
    }
    if (has_parts) return last == 0 && add_parts(found, rest, unknown, axes, parts, tensor);
    return last == 0 || add(found, last, unknown.empty() ? std::to_string(rest) : unknown);
}

/// Adds the factors of the parts at a '+' of `length`. One of these factors, the open one, may have no formula.
/// `unknown` is a formula without a value that `length` depends on, or empty.
bool OuterLetters::add_parts(Finding& found, Index length, std::string unknown, const std::vector<Axis>& axes,
                             const std::vector<const OuterTensor*>& parts, const Tensor& tensor) {
    Index fixed = 0;     // the length of parts that lack the open factor
    Index multiple = 0;  // the length of the other parts per unit of the open factor
    char open = 0;
    bool too_long = false;
    for (const OuterTensor* part : parts) {
        Index extent = 1;
        bool has_open = false;
        for (const char letter : brought_letters(*part, axes)) {
            const auto formula = outer_.dims.find(letter);
            if (formula == outer_.dims.end()) {
                if (has_open || (open != 0 && open != letter)) return false;
                open = letter;
                has_open = true;
                continue;
            }
            const auto size = Dims{}.evaluate(formula->second, config_);
            if (!size) unknown = formula->second;
            if (size && *size <= 0)
                throw failure("tensor '{}': size {} is {}", tensor.name, known_alternative(formula->second), *size);
            too_long |= __builtin_mul_overflow(extent, size.value_or(0), &extent);
            if (!found.letters.contains(letter) && !add(found, letter, size ? std::to_string(*size) : formula->second))
                return false;
        }
        Index& sum = has_open ? multiple : fixed;
        too_long |= __builtin_add_overflow(sum, extent, &sum);
    }
    if (!unknown.empty()) return open == 0 || add(found, open, unknown);
    const Index rest = length - fixed;
    const bool fits = open == 0 ? rest == 0 : rest > 0 && multiple > 0 && rest % multiple == 0;
    if (too_long || !fits)
        throw failure("tensor '{}': shape {}: the parts that it is made of do not fit into {}", tensor.name,
                      to_string(tensor.shape), length);
    return open == 0 || add(found, open, std::to_string(rest / multiple));
}

bool OuterLetters::add(Finding& found, char letter, const std::string& size) {
    const auto made = letter_of(size, found.seen[size]++);
    if (made) found.letters[letter] = *made;
    return made.has_value();
}

std::string OuterLetters::known_alternative(std::string_view formula) const {
    constexpr std::string_view separator = " | ";
    for (std::string_view rest = formula; !rest.empty();) {
        const std::string_view alternative = rest.substr(0, rest.find(separator));
        if (Dims{}.evaluate(alternative, config_)) return std::string{alternative};
        rest.remove_prefix(std::min(alternative.size() + separator.size(), rest.size()));
    }
    return std::string{formula};
}

/// The factor for the `number`-th axis of this size in a tensor. Nothing if no letter is left.
std::optional<char> OuterLetters::letter_of(const std::string& size, int number) {
    constexpr int first = 0x80;  // letters of rules are ASCII
    constexpr int last = 0xff;
    const auto [place, is_new] = made_.try_emplace({size, number}, first + static_cast<int>(made_.size()));
    if (place->second > last) return std::nullopt;
    const char letter = static_cast<char>(place->second);
    if (is_new) family_.dims[letter]["any"] = size;
    return letter;
}

}  // namespace tpx
