// SPDX-License-Identifier: Apache-2.0
#include "lib/layout/outer_model.hpp"

#include "lib/core/error.hpp"
#include "lib/layout/dims.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tpx {
namespace {

/// The text that `*` in `glob` matches in `name`: "" if `glob` has no `*`, nothing if `name` does not match.
std::optional<std::string_view> star_text(std::string_view glob, std::string_view name) {
    if (glob.find('*') != glob.npos) return star_of(glob, name);
    return glob == name ? std::optional{std::string_view{}} : std::nullopt;
}

std::string with_star(std::string_view glob, std::string_view text) {
    std::string name{glob};
    if (const std::size_t star = name.find('*'); star != name.npos) name.replace(star, 1, text);
    return name;
}

/// A pattern of names: "layers.*?.weight" is "layers.*.weight" or, of all layers together, "layers.weight".
struct Pattern {
    explicit Pattern(const std::string& glob) : single{glob} {
        constexpr std::string_view number = ".*?";
        const std::size_t at = glob.find(number);
        if (at == glob.npos) return;
        single.erase(at + number.size() - 1, 1);
        stacked = glob.substr(0, at) + glob.substr(at + number.size());
    }

    std::string single;   ///< of one tensor
    std::string stacked;  ///< of all together; empty: there is no such name
};

/// The part that a tensor belongs to, and the text that `*` matches in its name.
struct Found {
    const OuterPart* part = nullptr;
    std::string star;
    bool stacked = false;  ///< the tensor holds those of all numbers
};

/// The part that `name` belongs to in `dialect`. The longest pattern counts, as it says most.
std::optional<Found> find_part(const OuterModel& outer, const std::string& dialect, std::string_view name) {
    std::optional<Found> best;
    std::size_t length = 0;
    for (const OuterPart& part : outer.parts) {
        const auto names = part.names.find(dialect);
        if (names == part.names.end()) continue;
        for (const std::string& glob : names->second.globs) {
            const Pattern pattern{glob};
            const bool stacked = !pattern.stacked.empty() && pattern.stacked == name;
            const auto star = stacked ? std::optional{std::string_view{}} : star_text(pattern.single, name);
            if (!star || (best && glob.size() <= length)) continue;
            best = Found{&part, std::string{*star}, stacked};
            length = glob.size();
        }
    }
    return best;
}

/// The values of model_type that the configuration has: of the outer model, and of the model itself.
std::vector<std::string> types_of(const Config& config) {
    std::vector<std::string> types;
    for (const char* key : {"outer.model_type", "hf_outer_model_type", "hf_model_type", "model_type"}) {
        const auto found = config.find(key);
        const auto* text = found == config.end() ? nullptr : std::get_if<std::string>(&found->second);
        if (text != nullptr) types.push_back(*text);
    }
    return types;
}

/// Factors of the widened family, for the letters of a part.
using Letters = std::map<char, char>;

std::vector<Axis> renamed(std::vector<Axis> axes, const Letters& letters) {
    for (Axis& axis : axes)
        for (Token& token : axis) token.letter = letters.at(token.letter);
    return axes;
}

/// One tensor of a part in the widened family.
struct Member {
    std::string star;
    std::string name;  ///< the canonical one
    Letters letters;
    Shape shape;
};

/// Makes the tensors and rules of parts, with a factor for each size that they have.
class Widener {
public:
    Widener(const Family& family, const Dialect& dialect, const OuterModel& outer, const Config& config)
        : made_{std::make_shared<Family>(family)}, own_{dialect}, outer_{outer}, config_{config} {
        made_->is_outer = true;
        made_->dialects.clear();
        for (const auto& [name, nesting] : outer.nest)
            if (const Dialect* plain = family.dialect(name)) made_->dialects.push_back(nested_dialect(*plain, nesting));
    }

    /// Adds `tensor`. Returns false if rules cannot describe it beside the others. Throws Error if its axes are not
    /// those of the part.
    bool add(const Tensor& tensor, const Found& found) {
        Shape shape = tensor.shape;
        std::vector<std::string> stars{found.star};
        if (found.stacked) {
            constexpr Index most_members = 4096;  // of layers and the like; a shape costs its writer nothing
            if (shape.empty() || shape[0] > most_members || volume(shape) == 0) return false;
            stars.clear();
            for (Index k = 0; k < shape[0]; ++k) stars.push_back(std::to_string(k));
            shape = Shape{};
            for (int k = 1; k < tensor.shape.size(); ++k) shape.push_back(tensor.shape[k]);
        }
        const std::vector<Axis> stored = stored_axes(*found.part, tensor, shape);
        const auto letters = letters_of(stored, shape, tensor);
        if (!letters) return false;
        std::vector<std::string> names;
        for (const std::string& star : stars) {
            const std::string name = with_star(Pattern{found.part->names.begin()->second.globs[0]}.single, star);
            CanonicalTensor canonical{.name = name, .first = true, .optional = true, .outer = true};
            canonical.axes = renamed(found.part->axes.empty() ? declared(shape) : found.part->axes, *letters);
            if (found.part->tp != 0) canonical.tp = letters->at(found.part->tp);
            if (!made_->tensors.emplace(name, std::move(canonical)).second) return false;
            members_[found.part].push_back({star, name, *letters, shape});
            names.push_back(name);
        }
        return add_rule(own_, tensor.name, names, renamed(stored, *letters), found.stacked);
    }

    /// Adds the rules of the other dialects, once all tensors are known.
    bool add_rules() {
        for (const auto& [part, members] : members_) {
            if (part->tp != 0 && outer_.dims.contains(part->tp))
                made_->tp_divides.push_back(known_alternative(outer_.dims.at(part->tp)));
            for (Dialect& dialect : made_->dialects) {
                const auto names = part->names.find(dialect.name);
                if (names != part->names.end() && !add_rules(dialect, *part, names->second, members)) return false;
            }
        }
        return true;
    }

    WidenedFamily take() {
        made_->dialects.push_back(own_);
        return {made_, &made_->dialects.back()};
    }

private:
    /// The axes a, b, and so on.
    static std::vector<Axis> declared(const Shape& shape) {
        std::vector<Axis> axes;
        for (int k = 0; k < shape.size(); ++k) axes.push_back({{static_cast<char>('a' + k)}});
        return axes;
    }

    /// How the checkpoint stores the axes of a tensor of `part`. Throws Error if a dialect expects another number.
    std::vector<Axis> stored_axes(const OuterPart& part, const Tensor& tensor, const Shape& shape) const {
        const std::size_t count = static_cast<std::size_t>(shape.size());
        const auto check = [&](const std::vector<Axis>& axes) {
            if (!axes.empty() && axes.size() != count)
                throw failure("tensor '{}': expected {} axes, found shape {}", tensor.name, axes.size(),
                              to_string(shape));
        };
        check(part.axes);
        for (const auto& [dialect, names] : part.names) check(names.axes);
        const std::vector<Axis>& own = part.names.at(own_.name).axes;
        return !own.empty() ? own : part.axes.empty() ? declared(shape) : part.axes;
    }

    /// The factors of a tensor: sizes that no formula has follow from its shape. Nothing if one does not follow, or if
    /// no letter is left.
    std::optional<Letters> letters_of(const std::vector<Axis>& axes, const Shape& shape, const Tensor& tensor) {
        Letters letters;
        std::map<std::string, int> seen;
        const auto add = [&](char letter, const std::string& size) {
            const auto made = letter_of(size, seen[size]++);
            if (made) letters[letter] = *made;
            return made.has_value();
        };
        for (std::size_t k = 0; k < axes.size(); ++k) {
            Index rest = shape[static_cast<int>(k)];
            std::string unknown;  // the formula of a size that is unknown
            char last = 0;
            for (const Token token : axes[k]) {
                const auto formula = outer_.dims.find(token.letter);
                if (formula == outer_.dims.end()) {
                    if (last != 0) return std::nullopt;
                    last = token.letter;
                    continue;
                }
                const auto size = Dims{}.evaluate(formula->second, config_);
                if (size && (*size <= 0 || rest % *size != 0))
                    throw failure("tensor '{}': shape {}: {} does not divide the length of axis {}", tensor.name,
                                  to_string(tensor.shape), known_alternative(formula->second), k);
                if (!size) unknown = formula->second;
                if (size) rest /= *size;
                if (!add(token.letter, size ? std::to_string(*size) : formula->second)) return std::nullopt;
            }
            if (last != 0 && !add(last, unknown.empty() ? std::to_string(rest) : unknown)) return std::nullopt;
        }
        return letters;
    }

    /// The first of the alternatives of `formula` that has a value.
    std::string known_alternative(std::string_view formula) const {
        constexpr std::string_view separator = " | ";
        for (std::string_view rest = formula; !rest.empty();) {
            const std::string_view alternative = rest.substr(0, rest.find(separator));
            if (Dims{}.evaluate(alternative, config_)) return std::string{alternative};
            rest.remove_prefix(std::min(alternative.size() + separator.size(), rest.size()));
        }
        return std::string{formula};
    }

    /// The factor for the `number`-th axis of this size in a tensor. Nothing if no letter is left.
    std::optional<char> letter_of(const std::string& size, int number) {
        constexpr int first = 0x80;  // letters of rules are ASCII
        constexpr int last = 0xff;
        const auto [place, is_new] = letters_.try_emplace({size, number}, first + static_cast<int>(letters_.size()));
        if (place->second > last) return std::nullopt;
        const char letter = static_cast<char>(place->second);
        if (is_new) made_->dims[letter]["any"] = size;
        return letter;
    }

    /// Whether `members` can be stored together: numbers from 0 on, and one shape.
    static bool can_stack(const std::vector<Member>& members) {
        std::vector<std::string> numbers;
        for (std::size_t k = 0; k < members.size(); ++k) numbers.push_back(std::to_string(k));
        return std::ranges::is_permutation(members, numbers, {}, &Member::star) &&
               std::ranges::all_of(members, [&](const Member& member) { return member.shape == members[0].shape; });
    }

    static bool add_rules(Dialect& dialect, const OuterPart& part, const OuterNames& names,
                          const std::vector<Member>& members) {
        const Pattern pattern{names.globs[0]};
        const auto axes = [&](const Member& member) {
            std::vector<Axis> stored = names.axes;
            if (stored.empty()) stored = part.axes.empty() ? declared(member.shape) : part.axes;
            return renamed(std::move(stored), member.letters);
        };
        if (!pattern.stacked.empty() && can_stack(members)) {
            std::vector<std::string> parts(members.size());
            for (const Member& member : members) parts[std::stoul(member.star)] = member.name;
            if (!add_rule(dialect, pattern.stacked, parts, axes(members[0]), true)) return false;
        }
        return std::ranges::all_of(members, [&](const Member& member) {
            return add_rule(dialect, with_star(pattern.single, member.star), {member.name}, axes(member), false);
        });
    }

    /// Returns false if `name` has characters that a NameTemplate would not take literally.
    static bool add_rule(Dialect& dialect, const std::string& name, const std::vector<std::string>& parts,
                         std::vector<Axis> axes, bool stacked) {
        if (name.find('{') != name.npos || name.starts_with('[')) return false;
        if (stacked) axes.insert(axes.begin(), Axis{{'+'}});
        Rule rule{NameTemplate{name}, {.parts = parts, .axes = std::move(axes), .shape = {}}, {}};
        if (stacked) rule.tags = {"dist"};
        dialect.rules.push_back(std::move(rule));
        return true;
    }

    std::shared_ptr<Family> made_;
    Dialect own_;
    const OuterModel& outer_;
    const Config& config_;
    std::map<std::pair<std::string, int>, int> letters_;
    std::map<const OuterPart*, std::vector<Member>> members_;
};

}  // namespace

std::optional<WidenedFamily> widened(const Family& family, const Dialect& dialect, std::span<const Tensor> tensors,
                                     std::span<const std::uint32_t> unknown, const Config& config) {
    const std::vector<std::string> types = types_of(config);
    for (const OuterModel& outer : family.outer) {
        const bool named = std::ranges::any_of(
            outer.types, [&](const std::string& type) { return std::ranges::find(types, type) != types.end(); });
        if (!outer.nest.contains(dialect.name) || (!types.empty() && !named)) continue;
        std::vector<std::pair<std::uint32_t, Found>> found;
        for (const std::uint32_t t : unknown)
            if (auto part = find_part(outer, dialect.name, tensors[t].name)) found.emplace_back(t, *std::move(part));
        if (found.empty() || (!named && found.size() < unknown.size())) continue;
        Widener widener{family, dialect, outer, config};
        const bool all = std::ranges::all_of(
            found, [&](const auto& entry) { return widener.add(tensors[entry.first], entry.second); });
        return all && widener.add_rules() ? std::optional{widener.take()} : std::nullopt;
    }
    return std::nullopt;
}

}  // namespace tpx
