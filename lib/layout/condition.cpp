// SPDX-License-Identifier: Apache-2.0
#include "lib/layout/condition.hpp"

#include "lib/core/error.hpp"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <string>
#include <vector>

namespace tpx {
namespace {

using Value = std::optional<ConfigValue>;  // nothing: unknown
using Number = std::optional<std::int64_t>;

Number number_of(const Value& value) {
    if (!value) return std::nullopt;
    if (const auto* flag = std::get_if<bool>(&*value)) return *flag;
    const auto* number = std::get_if<std::int64_t>(&*value);
    return number ? Number{*number} : std::nullopt;
}

/// Any number, for comparisons. Whole numbers in settings are below 2^53, so the conversion is exact.
std::optional<double> real_of(const Value& value) {
    if (const auto* real = value ? std::get_if<double>(&*value) : nullptr) return *real;
    const Number number = number_of(value);
    return number ? std::optional{static_cast<double>(*number)} : std::nullopt;
}

std::optional<bool> truth_of(const Value& value) {
    if (!value || std::holds_alternative<std::nullptr_t>(*value)) return std::nullopt;
    if (const auto* text = std::get_if<std::string>(&*value)) return !text->empty();
    if (const auto* real = std::get_if<double>(&*value)) return *real != 0;
    return number_of(value) != 0;
}

// Has no conditional expression with std::nullopt, because GCC 12 warns about uninitialized text there.
Value value_of(std::optional<bool> truth) {
    if (!truth) return std::nullopt;
    return *truth;
}

std::optional<bool> both(std::optional<bool> a, std::optional<bool> b) {
    if (a == false || b == false) return false;
    if (a && b) return true;
    return std::nullopt;
}

Value calculate(char sign, Number a, Number b) {
    if (!a || !b) return std::nullopt;
    std::int64_t result = 0;
    if (sign == '+' && !__builtin_add_overflow(*a, *b, &result)) return result;
    if (sign == '-' && !__builtin_sub_overflow(*a, *b, &result)) return result;
    if (sign == '*' && !__builtin_mul_overflow(*a, *b, &result)) return result;
    if (sign == '%' && *a >= 0 && *b > 0) return *a % *b;
    if (sign == '/' && *b > 0 && *a % *b == 0) return *a / *b;
    return std::nullopt;
}

Value compare(std::string_view sign, const Value& a, const Value& b) {
    if (!a || !b) return std::nullopt;
    const auto* text = std::get_if<std::string>(&*a);
    const auto* other = std::get_if<std::string>(&*b);
    if (text && other && (sign == "=" || sign == "!=")) return (*text == *other) == (sign == "=");
    const std::optional<double> x = real_of(a);
    const std::optional<double> y = real_of(b);
    if (!x || !y) return std::nullopt;
    if (sign == "=") return *x == *y;
    if (sign == "!=") return *x != *y;
    if (sign == "<") return *x < *y;
    if (sign == "<=") return *x <= *y;
    return sign == ">" ? *x > *y : *x >= *y;
}

/// The items of a list; nothing if the value is not text.
std::optional<std::vector<ConfigValue>> items_of(const Value& list) {
    const auto* text = list ? std::get_if<std::string>(&*list) : nullptr;
    if (!text) return std::nullopt;
    return split_list(*text);
}

Value is_in(const Value& value, const Value& list) {
    const Number number = number_of(value);
    const Number single = number_of(list);  // a list of one number is stored as that number
    if (number && single) return *number == *single;
    const auto items = items_of(list);
    if (!number || !items || (!items->empty() && !number_of(items->front()))) return std::nullopt;
    return std::ranges::find(*items, ConfigValue{*number}) != items->end();
}

Value item(const std::vector<ConfigValue>& items, const Value& position) {
    const Number at = number_of(position);
    if (!at || *at < 0 || *at >= std::ssize(items)) return std::nullopt;
    return items[static_cast<std::size_t>(*at)];
}

/// The letter of a text at a position.
Value letter_at(const Value& value, const Number& at) {
    const auto* text = value ? std::get_if<std::string>(&*value) : nullptr;
    if (!text || !at || *at < 0 || *at >= std::ssize(*text)) return std::nullopt;
    return std::string(1, (*text)[static_cast<std::size_t>(*at)]);
}

/// Parses and evaluates in one pass, without short-circuiting, so that syntax errors are found whatever is known.
class Evaluation {
public:
    Evaluation(std::string_view text, const Lookup& lookup, const ListItems& lists)
        : text_{text}, lookup_{lookup}, lists_{lists} {}

    Value run() {
        const Value value = alternatives();
        blanks();
        if (at_ < text_.size()) throw wrong("an operator was expected");
        return value;
    }

private:
    static constexpr int deepest = 32;

    Error wrong(std::string_view what) const { return failure("condition '{}': {} (at {})", text_, what, at_); }
    void blanks() {
        while (at_ < text_.size() && text_[at_] == ' ') ++at_;
    }
    bool take(std::string_view sign) {
        blanks();
        if (!text_.substr(at_).starts_with(sign)) return false;
        at_ += sign.size();
        return true;
    }
    static bool in_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '.'; }
    bool take_word(std::string_view word) {
        blanks();
        const std::string_view rest = text_.substr(at_);
        if (!rest.starts_with(word) || (rest.size() > word.size() && in_word(rest[word.size()]))) return false;
        at_ += word.size();
        return true;
    }

    Value alternatives() {
        Value value = alternative();
        while (take("|")) {
            const Value next = alternative();
            if (!truth_of(value)) value = next;
        }
        return value;
    }
    Value alternative() {
        const Value value = conjunction();
        if (!take_word("if")) return value;
        return truth_of(conjunction()) == true ? value : std::nullopt;
    }
    Value conjunction() {
        Value value = comparison();
        while (take("&")) {
            const auto more = truth_of(comparison());
            value = value_of(both(truth_of(value), more));
        }
        return value;
    }
    Value comparison() {
        const Value value = sum();
        if (take_word("in")) return is_in(value, primary());
        for (std::string_view sign : {"<=", ">=", "!=", "<", ">", "="}) {
            if (take(sign)) return compare(sign, value, sum());
        }
        return value;
    }
    Value sum() {
        Value value = product();
        while (true) {
            if (take("+"))
                value = calculate('+', number_of(value), number_of(product()));
            else if (take("-"))
                value = calculate('-', number_of(value), number_of(product()));
            else
                return value;
        }
    }
    Value product() {
        Value value = primary();
        while (true) {
            blanks();
            const char sign = at_ < text_.size() ? text_[at_] : ' ';
            if (sign != '*' && sign != '/' && sign != '%') return value;
            ++at_;
            value = calculate(sign, number_of(value), number_of(primary()));
        }
    }
    Value primary() {
        if (++depth_ > deepest) throw wrong("too many parentheses");
        const Value value = term();
        --depth_;
        return value;
    }
    Value term() {
        if (take("!")) {
            const Value value = primary();
            const auto truth = truth_of(value);
            if (!truth) return std::nullopt;
            return !*truth;
        }
        if (take("(")) {
            const Value value = alternatives();
            if (!take(")")) throw wrong("')' was expected");
            return value;
        }
        if (take("'")) {
            const std::size_t end = text_.find('\'', at_);
            if (end == std::string_view::npos) throw wrong("a text does not end");
            const std::string_view text = text_.substr(at_, end - at_);
            at_ = end + 1;
            return std::string{text};
        }
        return word();
    }
    Value word() {
        blanks();
        const std::size_t begin = at_;
        while (at_ < text_.size() && in_word(text_[at_])) ++at_;
        const std::string_view name = text_.substr(begin, at_ - begin);
        if (name.empty()) throw wrong("a name or number was expected");
        std::int64_t number = 0;
        const auto [end, code] = std::from_chars(name.data(), name.data() + name.size(), number);
        const bool all = end == name.data() + name.size();
        if (code == std::errc{} && all) return number;
        double real = 0;
        const auto [stop, fault] = std::from_chars(name.data(), name.data() + name.size(), real);
        if (fault == std::errc{} && stop == name.data() + name.size()) return real;
        if (take("[")) return item_of(name);
        return name == "true" ? Value{true} : name == "false" ? Value{false} : lookup_(name);
    }
    Value item_of(std::string_view list) {
        const Value position = sum();
        if (!take("]")) throw wrong("']' was expected");
        constexpr std::string_view letters = ".letters";
        if (list.ends_with(letters))
            return letter_at(lookup_(list.substr(0, list.size() - letters.size())), number_of(position));
        const auto* items = lists_.find(list);
        if (items) return item(*items, position);
        return item(items_of(lookup_(list)).value_or(std::vector<ConfigValue>{}), position);
    }

    std::string_view text_;
    const Lookup& lookup_;
    const ListItems& lists_;
    std::size_t at_ = 0;
    int depth_ = 0;
};

}  // namespace

std::optional<bool> evaluate_condition(std::string_view condition, const Lookup& lookup, const ListItems& lists) {
    return truth_of(Evaluation{condition, lookup, lists}.run());
}

std::optional<std::int64_t> evaluate_number(std::string_view formula, const Lookup& lookup, const ListItems& lists) {
    return number_of(Evaluation{formula, lookup, lists}.run());
}

void check_condition(std::string_view condition) {
    evaluate_condition(condition, [](std::string_view) { return std::nullopt; });
}

}  // namespace tpx
