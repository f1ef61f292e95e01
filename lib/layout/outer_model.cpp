// SPDX-License-Identifier: Apache-2.0
#include "lib/layout/outer_model.hpp"

#include "lib/core/error.hpp"

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

/// The part that a tensor belongs to, and the text that `*` matches in its name.
struct Found {
    const std::map<std::string, OuterNames>* part = nullptr;
    std::string star;
};

/// The part that `name` belongs to in `dialect`. The longest pattern counts, as it says most.
std::optional<Found> find_part(const OuterModel& outer, const std::string& dialect, std::string_view name) {
    std::optional<Found> best;
    std::size_t length = 0;
    for (const auto& part : outer.parts) {
        const auto names = part.find(dialect);
        if (names == part.end()) continue;
        for (const std::string& glob : names->second.globs) {
            const auto star = star_text(glob, name);
            if (!star || (best && glob.size() <= length)) continue;
            best = Found{&part, std::string{*star}};
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

/// Makes the tensors and rules of parts, with a factor for each size that they have.
class Widener {
public:
    Widener(const Family& family, const Dialect& dialect, const OuterModel& outer)
        : made_{std::make_shared<Family>(family)}, own_{dialect} {
        made_->is_outer = true;
        made_->dialects.clear();
        for (const auto& [name, nesting] : outer.nest)
            if (const Dialect* plain = family.dialect(name)) made_->dialects.push_back(nested_dialect(*plain, nesting));
    }

    /// Adds `tensor`. Returns false if rules cannot describe it beside the others. Throws Error if its number of axes
    /// is not that of the part.
    bool add(const Tensor& tensor, const Found& found) {
        check_axes(tensor, *found.part);
        CanonicalTensor canonical{.name = canonical_name(found), .first = true, .optional = true, .outer = true};
        const std::vector<int>& order = found.part->at(own_.name).axes;
        canonical.axes.resize(static_cast<std::size_t>(tensor.shape.size()));
        std::map<Index, int> seen;
        for (int k = 0; k < tensor.shape.size(); ++k) {
            const std::size_t axis = static_cast<std::size_t>(order.empty() ? k : order[static_cast<std::size_t>(k)]);
            const auto letter = letter_of(tensor.shape[k], seen[tensor.shape[k]]++);
            if (!letter) return false;
            canonical.axes[axis] = Axis{{*letter}};
        }
        if (!add_rule(own_, tensor.name, canonical, order)) return false;
        for (Dialect& dialect : made_->dialects) {
            const auto names = found.part->find(dialect.name);
            if (names == found.part->end()) continue;
            if (!add_rule(dialect, with_star(names->second.globs[0], found.star), canonical, names->second.axes))
                return false;
        }
        const std::string name = canonical.name;
        return made_->tensors.emplace(name, std::move(canonical)).second;
    }

    WidenedFamily take() {
        made_->dialects.push_back(own_);
        return {made_, &made_->dialects.back()};
    }

private:
    static std::string canonical_name(const Found& found) {
        return with_star(found.part->begin()->second.globs[0], found.star);
    }

    static void check_axes(const Tensor& tensor, const std::map<std::string, OuterNames>& part) {
        for (const auto& [dialect, names] : part)
            if (!names.axes.empty() && std::ssize(names.axes) != tensor.shape.size())
                throw failure("tensor '{}': expected {} axes, found shape {}", tensor.name, names.axes.size(),
                              to_string(tensor.shape));
    }

    /// The factor for the `number`-th axis of this size in a tensor. Nothing if no letter is left.
    std::optional<char> letter_of(Index size, int number) {
        constexpr int first = 0x80;  // letters of rules are ASCII
        constexpr int last = 0xff;
        const auto [place, is_new] = letters_.try_emplace({size, number}, first + static_cast<int>(letters_.size()));
        if (place->second > last) return std::nullopt;
        const char letter = static_cast<char>(place->second);
        if (is_new) made_->dims[letter]["any"] = std::to_string(size);
        return letter;
    }

    /// Returns false if `name` has characters that a NameTemplate would not take literally.
    static bool add_rule(Dialect& dialect, const std::string& name, const CanonicalTensor& tensor,
                         const std::vector<int>& order) {
        if (name.find('{') != name.npos || name.starts_with('[')) return false;
        Rule rule{NameTemplate{name}, {.parts = {tensor.name}, .axes = {}, .shape = {}}, {}};
        for (const int axis : order) rule.expression.axes.push_back(tensor.axes[static_cast<std::size_t>(axis)]);
        dialect.rules.push_back(std::move(rule));
        return true;
    }

    std::shared_ptr<Family> made_;
    Dialect own_;
    std::map<std::pair<Index, int>, int> letters_;
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
        Widener widener{family, dialect, outer};
        const bool all = std::ranges::all_of(
            found, [&](const auto& entry) { return widener.add(tensors[entry.first], entry.second); });
        return all ? std::optional{widener.take()} : std::nullopt;
    }
    return std::nullopt;
}

}  // namespace tpx
