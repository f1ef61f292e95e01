// SPDX-License-Identifier: Apache-2.0
#include "lib/layout/notation.hpp"

#include "lib/core/error.hpp"

#include <algorithm>
#include <cctype>
#include <charconv>

namespace tpx {
namespace {

std::vector<std::string> words(std::string_view text) {
    std::vector<std::string> found;
    std::size_t at = 0;
    while ((at = text.find_first_not_of(' ', at)) != std::string_view::npos) {
        const std::size_t end = std::min(text.find(' ', at), text.size());
        found.emplace_back(text.substr(at, end - at));
        at = end;
    }
    return found;
}

/// Takes the digits of a number below 10^9 off the front of `text`; no sign, no empty number.
std::optional<int> take_number(std::string_view& text) {
    int value = 0;
    const auto [end, code] = std::from_chars(text.data(), text.data() + std::min<std::size_t>(text.size(), 9), value);
    if (code != std::errc{} || !std::isdigit(static_cast<unsigned char>(text[0]))) return std::nullopt;
    text.remove_prefix(static_cast<std::size_t>(end - text.data()));
    return value;
}

bool is_letter(char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0; }

/// All factors in alphabetical order.
std::string sorted_letters(const std::vector<Axis>& axes) {
    std::string letters;
    for (const Axis& axis : axes) {
        for (Token token : axis) letters += token.letter;
    }
    std::ranges::sort(letters);
    return letters;
}

/// Takes " + NUMBER" or " - NUMBER" off the end of `text`; 0 if it ends with neither.
int take_addend(std::string_view& text) {
    const std::size_t sign = text.find_last_of("+-");
    if (sign == std::string_view::npos || sign == 0 || text[sign - 1] != ' ') return 0;
    std::string_view digits = text.substr(sign + 1);
    digits.remove_prefix(std::min(digits.find_first_not_of(' '), digits.size()));
    const auto number = digits.empty() ? std::nullopt : take_number(digits);
    if (!number || !digits.empty()) return 0;
    const bool negative = text[sign] == '-';
    text = text.substr(0, sign);
    return negative ? -*number : *number;
}

/// Takes "*d" off the ends of parts.
void take_repeats(Expression& expression) {
    std::vector<char> repeats;
    for (std::string& part : expression.parts) {
        const bool repeated = part.size() > 2 && part[part.size() - 2] == '*' && is_letter(part.back());
        repeats.push_back(repeated ? part.back() : '\0');
        if (repeated) part.resize(part.size() - 2);
    }
    if (std::ranges::count(repeats, '\0') == std::ssize(repeats)) return;
    if (repeats.size() == 1)
        throw failure("'{}*{}': only one of several parts can be repeated", expression.parts[0], repeats[0]);
    expression.repeats = std::move(repeats);
}

std::optional<int>& slot(NameIndices& indices, char letter) { return letter == 'l' ? indices.layer : indices.expert; }

}  // namespace

std::vector<Axis> parse_axes(std::string_view text) {
    std::vector<Axis> axes;
    bool inside = false;
    for (std::size_t at = 0; at < text.size(); ++at) {
        const char c = text[at];
        if (c == ' ') continue;
        if (c == '(' && !inside) {
            inside = true;
            axes.emplace_back();
        } else if (c == ')' && inside) {
            inside = false;
        } else if (c == '+' || is_letter(c)) {
            const bool padded = at + 1 < text.size() && text[at + 1] == '~';
            if (!inside) axes.emplace_back();
            axes.back().push_back({c, padded});
            if (padded) ++at;
        } else {
            throw failure("axes '{}': '{}' is not understood", text, c);
        }
    }
    if (inside) throw failure("axes '{}': a parenthesis is not closed", text);
    return axes;
}

Expression parse_expression(std::string_view text) {
    std::string_view rest = text;
    const int addend = take_addend(rest);
    const std::size_t arrow = rest.find("->");
    Expression expression{.parts = words(rest.substr(0, arrow)), .axes = {}, .shape = {}, .addend = addend};
    if (arrow != std::string_view::npos) {
        const std::string_view axes = rest.substr(arrow + 2);
        const std::size_t as = axes.find(" as ");
        expression.axes = parse_axes(axes.substr(0, as));
        if (as != std::string_view::npos) expression.shape = parse_axes(axes.substr(as + 4));
    }
    take_repeats(expression);
    for (const std::string& part : expression.parts) {
        if (std::isalpha(static_cast<unsigned char>(part[0])) == 0)
            throw failure(
                "expression '{}': '{}' is not the name of a tensor; a whole number may be added at the end, as in "
                "'norm - 1'",
                text, part);
    }
    if (addend != 0 && expression.parts.size() > 1)
        throw failure("expression '{}': only the values of a single part can have an addend", text);
    const std::string letters = sorted_letters(expression.axes);
    if (expression.parts.empty() || std::ranges::count(letters, '+') != (expression.parts.size() > 1 ? 1 : 0))
        throw failure("expression '{}': several parts need one '+', a single part none", text);
    if (!expression.shape.empty() && sorted_letters(expression.shape) != letters)
        throw failure("expression '{}': the axes before and after 'as' must have the same factors", text);
    return expression;
}

NameTemplate::NameTemplate(std::string_view text) : text_{text} {
    if (text.starts_with('[')) {
        const std::size_t close = text.find(']');
        if (close == std::string_view::npos) throw failure("name '{}': '[' is not closed", text);
        prefix_ = text.substr(1, close - 1);
        text.remove_prefix(close + 1);
    }
    for (std::size_t open = 0; (open = text.find('{')) != std::string_view::npos;) {
        const std::size_t close = text.find('}', open);
        if (close == std::string_view::npos) throw failure("name '{}': '{{' is not closed", text_);
        segments_.push_back(in_context([&] { return fmt::format("name '{}'", text_); },
                                       [&] { return parse_index(text.substr(open + 1, close - open - 1)); }));
        segments_.back().literal = text.substr(0, open);
        if (segments_.back().optional && !segments_.back().literal.ends_with('.'))
            throw failure("name '{}': a dot must precede an index that may be absent", text_);
        text.remove_prefix(close + 1);
    }
    segments_.push_back({std::string{text}, 0, false});
}

NameTemplate::Segment NameTemplate::parse_index(std::string_view inner) {
    Segment segment;
    const std::string_view whole = inner;
    if (inner.ends_with('?')) {
        segment.optional = true;
        inner.remove_suffix(1);
    }
    const bool bounded =
        inner.size() == 3 && (inner[1] == '<' || inner[1] == '-' || inner[1] == '+') && is_letter(inner[2]);
    if ((inner.size() != 1 && !bounded) || (inner[0] != 'l' && inner[0] != 'e'))
        throw failure("'{{{}}}' is not an index; write {{l}}, {{l?}}, {{l<L}}, {{l-L}} or {{l+L}}, with l or e", whole);
    segment.letter = inner[0];
    if (bounded) segment.range = {inner[2], inner[1]};
    return segment;
}

std::optional<NameIndices> NameTemplate::match_from(std::string_view rest, std::size_t at, NameIndices found) const {
    const Segment& segment = segments_[at];
    if (segment.letter == 0) return rest == segment.literal ? std::optional{found} : std::nullopt;
    if (rest.starts_with(segment.literal)) {
        std::string_view tail = rest.substr(segment.literal.size());
        if (const auto number = tail.empty() ? std::nullopt : take_number(tail)) {
            NameIndices with = found;
            slot(with, segment.letter) = *number;
            if (auto match = match_from(tail, at + 1, with)) return match;
        }
    }
    if (!segment.optional) return std::nullopt;
    // Without the index its leading dot goes too: "layers.{l?}.mlp" also reads "layers.mlp".
    const std::string_view literal = std::string_view{segment.literal}.substr(0, segment.literal.size() - 1);
    if (!rest.starts_with(literal)) return std::nullopt;
    return match_from(rest.substr(literal.size()), at + 1, found);
}

std::optional<NameIndices> NameTemplate::match(std::string_view name) const {
    if (!prefix_.empty() && name.starts_with(prefix_)) name.remove_prefix(prefix_.size());
    return match_from(name, 0, {});
}

std::string NameTemplate::name(const NameIndices& indices, bool prefixed) const {
    std::string text = prefixed ? prefix_ : "";
    for (const Segment& segment : segments_) {
        text += segment.literal;
        if (segment.letter == 0) break;
        const auto& index = segment.letter == 'l' ? indices.layer : indices.expert;
        if (index) {
            text += std::to_string(*index);
        } else {
            text.pop_back();
        }
    }
    return text;
}

std::vector<std::string> NameTemplate::folded() const {
    std::vector<std::string> names;
    for (bool layer : {true, false}) {
        for (bool expert : {true, false}) {
            if ((!layer && !optional('l')) || (!expert && !optional('e'))) continue;
            const NameIndices numbers{layer ? std::optional{0} : std::nullopt,
                                      expert ? std::optional{0} : std::nullopt};
            names.push_back(fold_numbers(name(numbers, false)));
            if (has_prefix()) names.push_back(fold_numbers(name(numbers, true)));
        }
    }
    return names;
}

bool NameTemplate::has(char letter) const {
    return std::ranges::any_of(segments_, [&](const Segment& s) { return s.letter == letter; });
}

bool NameTemplate::optional(char letter) const {
    return std::ranges::any_of(segments_, [&](const Segment& s) { return s.letter == letter && s.optional; });
}

NameTemplate::Range NameTemplate::range(char letter) const {
    const auto found = std::ranges::find(segments_, letter, &Segment::letter);
    return found == segments_.end() ? Range{} : found->range;
}

std::string fold_numbers(std::string_view name) {
    std::string folded;
    for (char c : name) {
        const bool digit = std::isdigit(static_cast<unsigned char>(c)) != 0;
        if (!digit) folded += c;
        if (digit && !folded.ends_with('#')) folded += '#';
    }
    return folded;
}

bool glob_match(std::string_view pattern, std::string_view name) {
    std::size_t star = std::string_view::npos;
    std::size_t resume = 0;
    std::size_t p = 0;
    std::size_t n = 0;
    while (n < name.size()) {
        if (p < pattern.size() && pattern[p] == '*') {
            star = p++;
            resume = n;
        } else if (p < pattern.size() && pattern[p] == name[n]) {
            ++p;
            ++n;
        } else if (star != std::string_view::npos) {
            p = star + 1;
            n = ++resume;
        } else {
            return false;
        }
    }
    while (p < pattern.size() && pattern[p] == '*') ++p;
    return p == pattern.size();
}

std::optional<std::string_view> wildcard_match(std::string_view pattern, std::string_view name) {
    const std::size_t star = pattern.find('*');
    if (star == std::string_view::npos) return std::nullopt;
    const std::string_view head = pattern.substr(0, star);
    const std::string_view tail = pattern.substr(star + 1);
    if (name.size() < head.size() + tail.size() || !name.starts_with(head) || !name.ends_with(tail))
        return std::nullopt;
    return name.substr(head.size(), name.size() - head.size() - tail.size());
}

}  // namespace tpx
