// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tpx {

/// One token of an axis: a factor (a letter), a padded factor (`v~`), or `+`, where the parts follow one another.
struct Token {
    char letter = 0;  ///< '+' where the parts are joined, '#' where blocks of them are stacked
    bool padded = false;

    friend bool operator==(const Token&, const Token&) = default;
};

using Axis = std::vector<Token>;

/// Reads axes such as "l (g +) h": each word is an axis, and parentheses join several tokens into one axis. Throws
/// Error on a syntax error.
std::vector<Axis> parse_axes(std::string_view text);

/// What a stored tensor is made of: `parts` (names of canonical tensors) and, if given, its axes; without axes it has
/// the axes of its only part.
struct Expression {
    std::vector<std::string> parts;
    std::vector<Axis> axes;
    std::vector<Axis> shape;  ///< if given, the axes that the file declares for the same bytes
    int addend = 0;           ///< stored values are those of the only part plus this number
    /// For each part, the factor whose size is the number of times that each of its elements is stored in a row; 0:
    /// once. Empty if no part is repeated.
    std::vector<char> repeats = {};
    /// If positive, `parts` consists of blocks of this many parts, stacked along a first axis `#`. Rules cannot express
    /// it.
    std::size_t block = 0;
};

/// Reads "q k v -> (g +) h", "q gate*d -> (g +) h", "e_up -> e h x as h (e x)", or "norm - 1". Throws Error if several
/// parts lack a `+` or have an addend, if a single part is repeated, or if the two lists of axes have different
/// factors.
Expression parse_expression(std::string_view text);

/// The indices that a stored name carries; an unset one is not in the name (its axis is in the tensor, or there is
/// none).
struct NameIndices {
    std::optional<int> layer;
    std::optional<int> expert;

    friend bool operator==(const NameIndices&, const NameIndices&) = default;
};

/// A stored name with placeholders for indices: `{l}` and `{e}`. `{l?}` may be absent together with the dot before it;
/// the index is then a leading axis of the tensor. `{l<L}` is for indices below L, `{l-L}` for those from L on, counted
/// from 0, and `{e+N}` for all, counted from N. `[model.]` is a prefix that either all names of a checkpoint have or
/// none has.
class NameTemplate {
public:
    /// Which indices of a letter a name is for, and how it counts them.
    struct Range {
        char letter = 0;  ///< the factor that is the bound; 0: it is for all
        char sign =
            '<';  ///< '<': those below the bound; '-': those from it on, counted from 0; '+': all, from the bound
    };

    /// Throws Error if braces or brackets do not close, or if an index is neither l nor e.
    explicit NameTemplate(std::string_view text);

    /// The numbers in `name`, or nothing if it does not match.
    std::optional<NameIndices> match(std::string_view name) const;

    /// The name with these numbers, without those that are not set. `prefixed` adds the bracketed prefix.
    std::string name(const NameIndices& indices, bool prefixed) const;

    /// All names that the template can make, as fold_numbers() returns them: with `#` for each number.
    std::vector<std::string> folded() const;

    bool has(char letter) const;       ///< {l}, {l?} or {e} occurs
    bool optional(char letter) const;  ///< {l?} occurs
    Range range(char letter) const;
    bool has_prefix() const { return !prefix_.empty(); }
    const std::string& prefix() const { return prefix_; }
    const std::string& text() const { return text_; }

private:
    struct Segment {
        std::string literal;  ///< before the index
        char letter = 0;      ///< 0: the end of the name
        bool optional = false;
        Range range = {};
    };
    static Segment parse_index(std::string_view inner);
    std::optional<NameIndices> match_from(std::string_view rest, std::size_t segment, NameIndices found) const;

    std::string text_;
    std::string prefix_;
    std::vector<Segment> segments_;
};

/// `name` with `#` in place of each number: equal for all names that one template matches.
std::string fold_numbers(std::string_view name);

/// Whether `name` fits a pattern in which each `*` stands for any text.
bool glob_match(std::string_view pattern, std::string_view name);

/// What `*` stands for in `name`, for a pattern with exactly one `*`; nothing if `name` does not match.
std::optional<std::string_view> wildcard_match(std::string_view pattern, std::string_view name);

}  // namespace tpx
