// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tpx {

/// One token of an axis: a factor (a letter), a padded factor (`v~`), or `+`, where the parts stand one after the
/// other.
struct Token {
    char letter = 0;  ///< '+' for the place of the parts, '#' for that of blocks of them
    bool padded = false;

    friend bool operator==(const Token&, const Token&) = default;
};

using Axis = std::vector<Token>;

/// Reads axes as in "l (g +) h": each word is an axis, parentheses join several tokens into one axis.
/// Throws Error when the text is not of that form.
std::vector<Axis> parse_axes(std::string_view text);

/// What a stored tensor is made of: `parts` (names of canonical tensors) and, if given, its axes; without axes it has
/// the axes of its only part.
struct Expression {
    std::vector<std::string> parts;
    std::vector<Axis> axes;
    std::vector<Axis> shape;  ///< if given, the axes that the file claims for the same bytes
    int addend = 0;           ///< stored values are those of the only part plus this number
    /// Empty, or for each part the factor that says how often each of its elements is stored, one after the other; 0:
    /// once.
    std::vector<char> repeats = {};
    /// If positive, `parts` are blocks of as many parts each, which are stacked along a first axis `#`. No text has it.
    std::size_t block = 0;
};

/// Reads "q k v -> (g +) h", "q gate*d -> (g +) h", "e_up -> e h x as h (e x)", or "norm - 1". Throws Error when
/// several parts lack a `+` or have an addend, when a single part is repeated, or when the two lists of axes have other
/// factors.
Expression parse_expression(std::string_view text);

/// The indices that a stored name carries; an unset one is not in the name (its axis is in the tensor, or there is
/// none).
struct NameIndices {
    std::optional<int> layer;
    std::optional<int> expert;

    friend bool operator==(const NameIndices&, const NameIndices&) = default;
};

/// A stored name with places for indices: `{l}` and `{e}`; `{l?}` may be absent together with the dot before it, then
/// the index is a leading axis of the tensor; `{l<L}` is for indices below L, `{l-L}` for those from L on, counted from
/// 0, `{e+N}` for all, counted from N; `[model.]` is a prefix that all names of a checkpoint have, or none.
class NameTemplate {
public:
    /// Which indices of a letter a name is for, and how it counts them.
    struct Range {
        char letter = 0;  ///< the factor that bounds them; 0: it is for all
        char sign =
            '<';  ///< '<': those below the bound; '-': those from it on, counted from 0; '+': all, from the bound
    };

    /// Throws Error when braces or brackets do not close or name another letter than l or e.
    explicit NameTemplate(std::string_view text);

    /// The numbers that stand in `name`, or nothing when it does not match.
    std::optional<NameIndices> match(std::string_view name) const;

    /// The name with these numbers in it; one that is not set is left out. `prefixed` writes the bracketed prefix.
    std::string name(const NameIndices& indices, bool prefixed) const;

    /// All names that it can make, with `#` for each number, as fold_numbers() makes of a name.
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

/// What `*` stands for in `name`, for a pattern with exactly one `*`; nothing when it does not fit.
std::optional<std::string_view> star_of(std::string_view pattern, std::string_view name);

}  // namespace tpx
