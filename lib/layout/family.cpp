// SPDX-License-Identifier: Apache-2.0
#include "lib/layout/family.hpp"

#include "lib/core/error.hpp"
#include "lib/layout/condition.hpp"
#include "lib/layout/family_file.hpp"
#include "lib/layout/notation.hpp"

#include <algorithm>
#include <set>

namespace tpx {
namespace {

template <class Map>
void add_entries(Map& base, const Map& more) {
    for (const auto& [key, value] : more) base[key] = value;
}

void add_config(std::vector<ConfigEntry>& base, const std::vector<ConfigEntry>& more) {
    for (const ConfigEntry& entry : more) {
        const auto old = std::ranges::find(base, entry.key, &ConfigEntry::key);
        old == base.end() ? base.push_back(entry) : void(*old = entry);
    }
}

void add_dialect(WrittenDialect& base, const WrittenDialect& more) {
    if (more.replace) base.rules.clear();
    for (const WrittenRule& rule : more.rules)
        std::erase_if(base.rules, [&](const WrittenRule& old) { return old.name == rule.name; });
    base.rules.insert(base.rules.end(), more.rules.begin(), more.rules.end());
    if (!more.layer.empty()) base.layer = more.layer;
    if (!more.nest.empty()) base.nest = more.nest;
    base.bare |= more.bare;
    base.extra.insert(base.extra.end(), more.extra.begin(), more.extra.end());
    base.whole.insert(base.whole.end(), more.whole.begin(), more.whole.end());
    add_entries(base.roles, more.roles);
}

bool named_in(const std::vector<std::string>& list, std::string_view name) {
    return std::ranges::find(list, name) != list.end();
}

void remove_from(WrittenFamily& family, const std::vector<std::string>& names) {
    std::erase_if(family.own.tensors, [&](const auto& entry) { return named_in(names, entry.first); });
    std::erase_if(family.own.present, [&](const auto& entry) { return named_in(names, entry.first); });
    for (auto& [dialect, rules] : family.dialects) {
        std::erase_if(rules.rules, [&](const WrittenRule& rule) {
            return named_in(names, rule.name) ||
                   std::ranges::any_of(rule.expression.parts,
                                       [&](const std::string& part) { return named_in(names, part); });
        });
    }
}

void check_axes(const Family& family, const CanonicalTensor& tensor) {
    std::set<char> seen;
    for (const Axis& axis : tensor.axes) {
        for (Token token : axis) {
            if (!seen.insert(token.letter).second) throw failure("factor '{}' occurs twice", token.letter);
            if (token.letter == '+' || token.padded) throw failure("only expressions have '+' and '~'");
            if (!family.dims.contains(token.letter) && token.letter != 'l')
                throw failure("the size of factor '{}' is not declared in [dims]", token.letter);
        }
    }
    if (!tensor.tie.empty() && !family.tensors.contains(tensor.tie))
        throw failure("it is tied to '{}', which is not declared", tensor.tie);
}

/// Checks the formulas of factors that vary, which have the syntax of conditions. Dims::evaluate() reads those of other
/// factors.
void check_layer_formulas(const Family& family) {
    for (const auto& [letter, formulas] : family.dims) {
        if (!family.varies(letter)) continue;
        for (const auto& [source, formula] : formulas)
            in_context([&] { return fmt::format("dims.{}: {}", letter, source); }, [&] { check_condition(formula); });
    }
}

void check_rule(const Family& family, const Rule& rule) {
    for (const std::string& part : rule.expression.parts) {
        if (!family.tensors.contains(part)) throw failure("tensor '{}' is not declared", part);
    }
    for (std::size_t k = 0; k < rule.expression.repeats.size(); ++k) {
        const char repeat = rule.expression.repeats[k];
        if (repeat == 0) continue;
        if (!family.dims.contains(repeat)) throw failure("the size of factor '{}' is not declared in [dims]", repeat);
        if (family.tensor(rule.expression.parts[k]).has(repeat))
            throw failure("tensor '{}' has factor '{}' and cannot be repeated by it", rule.expression.parts[k], repeat);
        const bool is_axis = std::ranges::any_of(rule.expression.axes, [&](const Axis& axis) {
            return std::ranges::any_of(axis, [&](const Token token) { return token.letter == repeat; });
        });
        if (is_axis || repeat == 'l' || repeat == 'e')
            throw failure("factor '{}' cannot repeat a tensor; it is already an axis of this rule", repeat);
    }
    for (char letter : {'l', 'e'}) {
        if (rule.name.has(letter) && !family.tensor(rule.expression.parts[0]).is_index(letter) && !rule.alias())
            throw failure("tensor '{}' has no index '{}'", rule.expression.parts[0], letter);
    }
}

std::vector<Rule> expand(const WrittenRule& written, const std::vector<std::string>& layers) {
    std::vector<Rule> rules;
    if (!written.name.starts_with('.')) return {{NameTemplate{written.name}, written.expression, written.tags}};
    if (layers.empty()) throw failure("rule '{}' begins with '.', but the dialect has no 'layer'", written.name);
    for (const std::string& layer : layers)
        rules.push_back({NameTemplate{layer + written.name}, written.expression, written.tags});
    return rules;
}

Dialect build_dialect(const std::string& name, const WrittenDialect& written) {
    Dialect dialect{.name = name, .bare = written.bare, .extra = written.extra, .whole = written.whole};
    for (const WrittenRule& rule : written.rules) {
        std::vector<Rule> rules = expand(rule, written.layer);
        dialect.rules.insert(dialect.rules.end(), rules.begin(), rules.end());
    }
    for (const auto& [role, patterns] : written.roles)
        dialect.roles.insert(dialect.roles.end(), patterns.begin(), patterns.end());
    return dialect;
}

/// What `name` becomes inside another model; see Nesting.
std::string nested_name(std::string_view name, const Nesting& nesting) {
    if (!name.starts_with('[')) return nesting.before + std::string{name};
    return nesting.prefix + std::string{name.substr(name.find(']') + 1)};
}

}  // namespace

Dialect nested_dialect(const Dialect& dialect, const Nesting& nesting) {
    Dialect inside = dialect;
    for (Rule& rule : inside.rules) rule.name = NameTemplate{nested_name(rule.name.text(), nesting)};
    // Megatron splits towers that are built from its own layers; OuterModel describes the towers that each rank has
    // whole.
    if (dialect.name != "hf") return inside;
    for (const std::string& beginning : {nesting.prefix, nesting.before})
        if (!beginning.empty()) inside.inside.push_back(beginning);
    return inside;
}

bool Dialect::is_listed_whole(std::string_view tensor) const {
    return std::ranges::any_of(whole, [&](const std::string& glob) { return glob_match(glob, tensor); });
}

bool Dialect::is_whole(std::string_view tensor) const {
    if (is_listed_whole(tensor)) return true;
    const auto optimizers = {"optimizer.", "optim."};  // these also contain the state of the language model
    return !inside.empty() &&
           std::ranges::none_of(optimizers, [&](const char* prefix) { return tensor.starts_with(prefix); }) &&
           std::ranges::none_of(inside, [&](const std::string& beginning) { return tensor.starts_with(beginning); });
}

void add_family(WrittenFamily& base, const WrittenFamily& more) {
    remove_from(base, more.remove);
    for (const std::string& dialect : more.without) base.dialects.erase(dialect);
    add_entries(base.own.dims, more.own.dims);
    add_entries(base.own.tied, more.own.tied);
    add_entries(base.own.tensors, more.own.tensors);
    for (const auto& [tensor, conditions] : more.own.present) add_entries(base.own.present[tensor], conditions);
    for (const auto& [dialect, pad] : more.own.pad) add_entries(base.own.pad[dialect], pad);
    for (const auto& [dialect, entries] : more.own.config) add_config(base.own.config[dialect], entries);
    for (const auto& [dialect, limits] : more.own.limits) add_entries(base.own.limits[dialect], limits);
    for (const auto& [dialect, keys] : more.own.needed) {
        add_entries(base.own.needed[dialect], keys);
        std::erase_if(base.own.needed[dialect], [](const auto& entry) { return entry.second.empty(); });
    }
    if (!more.own.tp_divides.empty()) base.own.tp_divides = more.own.tp_divides;
    for (const auto& [name, dialect] : more.dialects) add_dialect(base.dialects[name], dialect);
    base.own.outer.insert(base.own.outer.begin(), more.own.outer.begin(), more.own.outer.end());
    base.own.detect = more.own.detect;
    base.own.told = more.own.told;
    base.own.remote_code = more.own.remote_code;
}

Family build_family(const WrittenFamily& written) {
    return in_context(
        [&] { return written.source; },
        [&] {
            Family family = written.own;
            for (const auto& [name, tensor] : family.tensors)
                in_context([&] { return fmt::format("tensor '{}'", name); }, [&] { check_axes(family, tensor); });
            check_layer_formulas(family);
            for (const auto& [name, conditions] : family.present) {
                if (!family.tensors.contains(name)) throw failure("present: tensor '{}' is not declared", name);
            }
            for (const auto& [name, dialect] : written.dialects) {
                const Dialect plain = build_dialect(name, dialect);
                family.dialects.push_back(plain);
                for (const Nesting& nesting : dialect.nest) family.dialects.push_back(nested_dialect(plain, nesting));
            }
            for (const Dialect& dialect : family.dialects) {
                for (const Rule& rule : dialect.rules)
                    in_context([&] { return fmt::format("dialect '{}': rule '{}'", dialect.name, rule.name.text()); },
                               [&] { check_rule(family, rule); });
            }
            return family;
        });
}

bool CanonicalTensor::has(char letter) const {
    return std::ranges::any_of(
        axes, [&](const Axis& axis) { return std::ranges::find(axis, letter, &Token::letter) != axis.end(); });
}

bool Rule::tagged(std::string_view tag) const { return std::ranges::find(tags, tag) != tags.end(); }

std::span<const RolePattern> torch_roles() {
    static const std::vector<RolePattern> roles = [] {
        std::vector<RolePattern> made;
        for (const Role state : {Role::exp_avg, Role::exp_avg_sq, Role::step})
            for (const char* prefix : {"optimizer", "optim"})
                made.push_back({state, fmt::format("{}.state.*.{}", prefix, state), ""});
        return made;
    }();
    return roles;
}

bool Family::varies(char letter) const {
    const auto formulas = dims.find(letter);
    if (formulas == dims.end()) return false;
    const auto any = formulas->second.find("any");
    return any != formulas->second.end() && any->second == "varies";
}

bool Family::has_varying_sizes() const {
    return std::ranges::any_of(dims, [&](const auto& entry) { return varies(entry.first); });
}

const std::string* formula_for(const std::map<std::string, std::string>& by_source, std::string_view source) {
    auto found = by_source.find(std::string{source});
    if (found == by_source.end()) found = by_source.find("any");
    return found == by_source.end() ? nullptr : &found->second;
}

const Dialect* Family::dialect(std::string_view wanted) const {
    const auto found = std::ranges::find(dialects, wanted, &Dialect::name);
    return found == dialects.end() ? nullptr : &*found;
}

const CanonicalTensor& Family::tensor(std::string_view wanted) const {
    const auto found = tensors.find(wanted);
    if (found == tensors.end()) throw failure("family '{}': no tensor '{}'", name, wanted);
    return found->second;
}

Family parse_family(std::string_view text, std::string_view source) {
    return build_family(parse_family_file({source, text}));
}

}  // namespace tpx
