// SPDX-License-Identifier: Apache-2.0
#include "formats/deepspeed/pattern.hpp"

#include "lib/core/error.hpp"

#include <cctype>

namespace tpx::formats::deepspeed {
namespace {

using Bytes = std::bitset<256>;

/// Parses one pattern; each function consumes its element from the front of `rest`.
struct Parser {
    std::string_view rest;

    char take() {
        if (rest.empty()) throw failure("ends too early");
        const char c = rest[0];
        rest.remove_prefix(1);
        return c;
    }

    static Bytes one(char c) { return Bytes{}.set(static_cast<unsigned char>(c)); }

    static Bytes where(int (*holds)(int), bool underscore) {
        Bytes bytes;
        for (int c = 0; c < 128; ++c) bytes[c] = holds(c) != 0;
        if (underscore) bytes.set('_');
        return bytes;
    }

    /// The characters that an escape after a backslash matches.
    Bytes escape() {
        const char c = take();
        if (!std::isalnum(static_cast<unsigned char>(c))) return one(c);
        switch (c) {
            case 'd':
                return where(std::isdigit, false);
            case 'D':
                return ~where(std::isdigit, false);
            case 'w':
                return where(std::isalnum, true);
            case 'W':
                return ~where(std::isalnum, true);
            case 's':
                return where(std::isspace, false);
            case 'S':
                return ~where(std::isspace, false);
            default:
                throw failure("has '\\{}', which tpx does not know", c);
        }
    }

    Bytes bracket() {
        Bytes bytes;
        const bool negated = !rest.empty() && rest[0] == '^';
        if (negated) take();
        for (bool first = true;; first = false) {
            const char c = take();
            if (c == ']' && !first) break;
            if (c == '\\') {
                bytes |= escape();
            } else if (rest.size() > 1 && rest[0] == '-' && rest[1] != ']') {
                take();
                const char last = take();
                if (last == '\\' || last < c) throw failure("has a range '{}-{}'", c, last);
                for (int b = static_cast<unsigned char>(c); b <= static_cast<unsigned char>(last); ++b) bytes.set(b);
            } else {
                bytes |= one(c);
            }
        }
        return negated ? ~bytes : bytes;
    }

    Bytes item() {
        const char c = take();
        if (c == '\\') return escape();
        if (c == '[') return bracket();
        if (c == '.') return ~one('\n');
        constexpr std::string_view special = "(){}|*+?^$";
        if (special.find(c) != special.npos) throw failure("has '{}', which tpx does not know there", c);
        return one(c);
    }
};

}  // namespace

Pattern::Pattern(std::string_view text) {
    in_context([&] { return fmt::format("pattern '{}'", text); },
               [&] {
                   Parser parser{text};
                   if (text.starts_with('^')) parser.take();
                   while (!parser.rest.empty() && parser.rest != "$") {
                       Item item{.bytes = parser.item()};
                       const char mark = parser.rest.empty() ? '\0' : parser.rest[0];
                       item.optional = mark == '*' || mark == '?';
                       item.repeated = mark == '*' || mark == '+';
                       if (item.optional || item.repeated) parser.take();
                       items_.push_back(item);
                   }
                   to_end_ = parser.rest == "$";
               });
}

bool Pattern::match(std::string_view name) const {
    // `at[i]`: the characters read so far match items 0 to i - 1.
    std::vector<bool> at(items_.size() + 1);
    const auto skip = [&](std::vector<bool>& states) {
        for (std::size_t i = 0; i < items_.size(); ++i)
            if (states[i] && items_[i].optional) states[i + 1] = true;
    };
    at[0] = true;
    skip(at);
    for (const char c : name) {
        if (at.back() && !to_end_) return true;
        std::vector<bool> next(at.size());
        for (std::size_t i = 0; i < items_.size(); ++i) {
            if (!at[i] || !items_[i].bytes[static_cast<unsigned char>(c)]) continue;
            next[i + 1] = true;
            if (items_[i].repeated) next[i] = true;
        }
        skip(next);
        at = std::move(next);
    }
    return at.back();
}

}  // namespace tpx::formats::deepspeed
