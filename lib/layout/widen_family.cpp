// SPDX-License-Identifier: Apache-2.0
#include "lib/layout/widen_family.hpp"

#include "lib/core/error.hpp"
#include "lib/layout/outer_letters.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tpx {
namespace {

/// The text that `*` in `glob` matches in `name`: "" if `glob` has no `*`, nothing if `name` does not match.
std::optional<std::string_view> star_text(std::string_view glob, std::string_view name) {
    if (glob.find('*') != glob.npos) return wildcard_match(glob, name);
    return glob == name ? std::optional{std::string_view{}} : std::nullopt;
}

std::string with_star(std::string_view glob, std::string_view text) {
    std::string name{glob};
    if (const std::size_t star = name.find('*'); star != name.npos) name.replace(star, 1, text);
    return name;
}

/// A pattern of names: "layers.*?.weight" is "layers.*.weight" or, for all layers stacked, "layers.weight".
struct Pattern {
    explicit Pattern(const std::string& glob) : single{glob} {
        constexpr std::string_view number = ".*?";
        const std::size_t at = glob.find(number);
        if (at == glob.npos) return;
        single.erase(at + number.size() - 1, 1);
        stacked = glob.substr(0, at) + glob.substr(at + number.size());
    }

    std::string single;   ///< of one tensor
    std::string stacked;  ///< of all tensors stacked; empty: there is no such name
};

/// The part that a tensor belongs to, its pattern, and the text that `*` matches in its name.
struct Found {
    const OuterPart* part = nullptr;
    const OuterName* name = nullptr;
    std::string star;
    bool stacked = false;  ///< the tensor stacks those of all numbers
};

/// The part that `name` belongs to in `dialect`. The longest pattern counts, because it is the most specific.
std::optional<Found> find_part(const OuterModel& outer, const std::string& dialect, std::string_view name) {
    std::optional<Found> best;
    std::size_t length = 0;
    for (const OuterPart& part : outer.parts) {
        const auto names = part.names.find(dialect);
        if (names == part.names.end()) continue;
        for (const OuterName& candidate : names->second) {
            const Pattern pattern{candidate.glob};
            const bool stacked = !pattern.stacked.empty() && pattern.stacked == name;
            const auto star = stacked ? std::optional{std::string_view{}} : star_text(pattern.single, name);
            if (!star || (best && candidate.glob.size() <= length)) continue;
            best = Found{&part, &candidate, std::string{*star}, stacked};
            length = candidate.glob.size();
        }
    }
    return best;
}

/// The tensor of `part` with this name.
const OuterTensor& tensor_of(const OuterPart& part, std::string_view name) {
    return *std::ranges::find(part.tensors, name, &OuterTensor::name);
}

/// The canonical name of a tensor of a part.
std::string part_tensor_name(const OuterPart& part, const std::string& tensor, std::string_view star) {
    const std::vector<OuterName>& names = part.names.begin()->second;
    const auto found = std::ranges::find_if(
        names, [&](const OuterName& name) { return std::ranges::find(name.tensors, tensor) != name.tensors.end(); });
    const std::string stored = with_star(Pattern{found->glob}.single, star);
    return found->tensors.size() > 1 ? stored + "." + tensor : stored;
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

/// One tensor of a part in the widened family.
struct Member {
    std::string star;
    std::string tensor;  ///< in the part
    std::string name;    ///< the canonical one
    Letters letters;
};

/// Makes the tensors and rules of parts, with a factor for each size that they have.
class Widener {
public:
    Widener(const Family& family, const Dialect& dialect, const OuterModel& outer, const Config& config)
        : made_{std::make_shared<Family>(family)}, own_{dialect}, outer_{outer}, letters_{outer, config, *made_} {
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
            constexpr Index most_members = 4096;  // such as layers; a file can claim any shape
            if (shape.empty() || shape[0] > most_members || volume(shape) == 0) return false;
            stars.clear();
            for (Index k = 0; k < shape[0]; ++k) stars.push_back(std::to_string(k));
            shape = Shape{};
            for (int k = 1; k < tensor.shape.size(); ++k) shape.push_back(tensor.shape[k]);
        }
        std::vector<const OuterTensor*> parts;
        for (const std::string& name : found.name->tensors) parts.push_back(&tensor_of(*found.part, name));
        const std::vector<Axis> stored = stored_axes(found, tensor, shape);
        const auto letters = letters_.of(tensor, shape, stored, parts);
        if (!letters) return false;
        std::vector<std::string> names;
        for (const std::string& star : stars)
            for (const OuterTensor* part : parts) {
                names.push_back(part_tensor_name(*found.part, part->name, star));
                if (!add_tensor(names.back(), *part, *letters, shape)) return false;
                members_[found.part].push_back({star, part->name, names.back(), *letters});
            }
        return add_rule(own_, tensor.name, names, renamed(stored, *letters), found.stacked ? parts.size() : 0);
    }

    /// Adds the rules of the other dialects, once all tensors are known.
    bool add_rules() {
        for (const auto& [part, members] : members_) {
            for (const OuterTensor& tensor : part->tensors)
                if (tensor.tp != 0 && outer_.dims.contains(tensor.tp))
                    made_->tp_divides.push_back(letters_.known_alternative(outer_.dims.at(tensor.tp)));
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
    /// The stored axes of a tensor. Throws Error if their number differs from that of its shape. A dialect may join or
    /// split axes only if the part declares its axes.
    static std::vector<Axis> stored_axes(const Found& found, const Tensor& tensor, const Shape& shape) {
        const std::size_t count = static_cast<std::size_t>(shape.size());
        const auto check = [&](const std::vector<Axis>& axes) {
            if (!axes.empty() && axes.size() != count)
                throw failure("tensor '{}': expected {} axes, found shape {}", tensor.name, axes.size(),
                              to_string(shape));
        };
        const std::vector<Axis>& declared = tensor_of(*found.part, found.name->tensors[0]).axes;
        const std::vector<Axis>& own = found.name->axes.empty() ? declared : found.name->axes;
        check(own);
        if (declared.empty())
            for (const auto& [dialect, names] : found.part->names)
                for (const OuterName& name : names) check(name.axes);
        return own.empty() ? declared_axes(count) : own;
    }

    bool add_tensor(const std::string& name, const OuterTensor& part, const Letters& letters, const Shape& shape) {
        CanonicalTensor canonical{.name = name, .first = true, .optional = true, .outer = true};
        const bool declared = !part.axes.empty();
        canonical.axes = renamed(declared ? part.axes : declared_axes(static_cast<std::size_t>(shape.size())), letters);
        if (part.tp != 0) canonical.tp = letters.at(part.tp);
        return made_->tensors.emplace(name, std::move(canonical)).second;
    }

    /// Members that are stored together, in the order of their name's tensors.
    using Joint = std::vector<const Member*>;

    /// Whether the members can be stacked: numbers from 0 on, and one shape.
    static bool can_stack(const std::vector<Joint>& joints) {
        std::vector<std::string> numbers, stars;
        for (std::size_t k = 0; k < joints.size(); ++k) numbers.push_back(std::to_string(k));
        for (const Joint& joint : joints) stars.push_back(joint[0]->star);
        return std::ranges::is_permutation(stars, numbers) && std::ranges::all_of(joints, [&](const Joint& joint) {
                   return joint[0]->letters == joints[0][0]->letters;
               });
    }

    /// Groups the members that `name` stores together, one group per text that matches `*`. Nothing if members are
    /// missing or have other factors.
    static std::optional<std::vector<Joint>> joined(const OuterName& name, const std::vector<Member>& members) {
        std::vector<Joint> joints;
        std::map<std::string_view, std::size_t> numbers;  // by the text
        for (const std::string& tensor : name.tensors)
            for (const Member& member : members) {
                if (member.tensor != tensor) continue;
                const auto [number, is_new] = numbers.emplace(member.star, joints.size());
                if (is_new) joints.emplace_back();
                joints[number->second].push_back(&member);
            }
        const bool whole = std::ranges::all_of(joints, [&](const Joint& joint) {
            return joint.size() == name.tensors.size() && std::ranges::all_of(joint, [&](const Member* member) {
                       return member->letters == joint[0]->letters;
                   });
        });
        return whole ? std::optional{std::move(joints)} : std::nullopt;
    }

    static bool add_rules(Dialect& dialect, const OuterPart& part, const std::vector<OuterName>& names,
                          const std::vector<Member>& members) {
        std::set<std::string> written;
        for (const OuterName& name : names)
            if (written.insert(name.tensors[0]).second && !add_rules(dialect, part, name, members)) return false;
        return true;
    }

    static bool add_rules(Dialect& dialect, const OuterPart& part, const OuterName& name,
                          const std::vector<Member>& members) {
        const auto joints = joined(name, members);
        if (!joints || joints->empty()) return joints.has_value();
        const Pattern pattern{name.glob};
        const auto axes = [&](const Member& member) {
            std::vector<Axis> stored = name.axes.empty() ? tensor_of(part, name.tensors[0]).axes : name.axes;
            return renamed(stored.empty() ? declared_axes(member.letters.size()) : std::move(stored), member.letters);
        };
        const std::size_t block = name.tensors.size();
        if (!pattern.stacked.empty() && can_stack(*joints)) {
            std::vector<std::string> parts(joints->size() * block);
            for (const Joint& joint : *joints)
                for (std::size_t k = 0; k < block; ++k) parts[std::stoul(joint[0]->star) * block + k] = joint[k]->name;
            if (!add_rule(dialect, pattern.stacked, parts, axes(*joints->front()[0]), block)) return false;
        }
        return std::ranges::all_of(*joints, [&](const Joint& joint) {
            std::vector<std::string> parts;
            for (const Member* member : joint) parts.push_back(member->name);
            return add_rule(dialect, with_star(pattern.single, joint[0]->star), parts, axes(*joint[0]), 0);
        });
    }

    /// Adds a rule of `parts`, which are blocks of `block` parts if that is positive. Returns false if `name` has
    /// characters that a NameTemplate would not take literally.
    static bool add_rule(Dialect& dialect, const std::string& name, const std::vector<std::string>& parts,
                         std::vector<Axis> axes, std::size_t block) {
        if (name.find('{') != name.npos || name.starts_with('[')) return false;
        if (block > 0) axes.insert(axes.begin(), Axis{{'#'}});
        Rule rule{NameTemplate{name}, {.parts = parts, .axes = std::move(axes), .shape = {}, .block = block}, {}};
        if (block > 0) rule.tags = {"dist"};
        dialect.rules.push_back(std::move(rule));
        return true;
    }

    std::shared_ptr<Family> made_;
    Dialect own_;
    const OuterModel& outer_;
    OuterLetters letters_;
    std::map<const OuterPart*, std::vector<Member>> members_;
};

}  // namespace

std::optional<WidenedFamily> widen_family(const Family& family, const Dialect& dialect, std::span<const Tensor> tensors,
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
