// SPDX-License-Identifier: Apache-2.0
#include "cmd/verify/compare_groups.hpp"

#include "formats/state/value_text.hpp"
#include "formats/values/value_paths.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <algorithm>
#include <charconv>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tpx::cli {
namespace {

using formats::SettingGroup;
using Groups = std::vector<const SettingGroup*>;
using Texts = std::set<std::string>;

/// `text` in normal form if it is a number: 0 and 0.0 become equal.
std::string normal(const std::string& text) {
    double number = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    const bool whole = error == std::errc{} && end == text.data() + text.size();
    return whole ? formats::real_text(number) : text;
}

Texts normal(const Texts& texts) {
    Texts result;
    for (const std::string& text : texts) result.insert(normal(text));
    return result;
}

std::string text_of(const Texts& texts) { return fmt::format("{}", fmt::join(texts, "; ")); }

bool says_nothing(const std::string& key, const Texts& texts) {
    return std::ranges::all_of(
        texts, [&](const std::string& text) { return formats::is_default("param_groups." + key, text); });
}

/// What identifies a group: Megatron's multipliers, or its list of parameters, or else its name.
std::string identity(const SettingGroup& group) {
    const bool megatron = group.settings.contains("wd_mult");
    std::string text;
    for (const auto& [key, texts] : group.settings)
        if (formats::identifies_group(key) && (key == "params") != megatron && !says_nothing(key, texts))
            text += fmt::format("{}={} ", key, text_of(normal(texts)));
    return text.empty() ? group.group : text;
}

std::map<std::string, Groups> by_optimizer(std::span<const SettingGroup> groups) {
    std::map<std::string, Groups> result;
    for (const SettingGroup& group : groups) result[group.optimizer].push_back(&group);
    return result;
}

/// All settings of a group except its parameters, which formats name differently, and its step, which some formats
/// store elsewhere.
std::string contents(const SettingGroup& group) {
    std::string text;
    for (const auto& [key, texts] : group.settings)
        if (key != "params" && key != "step" && !says_nothing(key, texts))
            text += fmt::format("{}={}\n", key, text_of(normal(texts)));
    return text;
}

/// The items of a list of params, "[0, 1]"; std::nullopt if the list was too long to be kept as text.
std::optional<std::vector<std::string>> items_of(std::string_view text) {
    if (!text.starts_with('[') || !text.ends_with(']')) return std::nullopt;
    std::vector<std::string> items;
    for (text = text.substr(1, text.size() - 2); !text.empty();) {
        const std::size_t comma = std::min(text.find(", "), text.size());
        items.emplace_back(text.substr(0, comma));
        text.remove_prefix(std::min(comma + 2, text.size()));
    }
    return items;
}

/// One group per parameter, if all groups list their parameters and none occurs twice; otherwise empty.
std::map<std::string, SettingGroup> by_parameters(const Groups& groups) {
    std::map<std::string, SettingGroup> result;
    for (const SettingGroup* group : groups) {
        const auto params = group->settings.find("params");
        const bool has_list = params != group->settings.end() && params->second.size() == 1;
        const auto items = has_list ? items_of(*params->second.begin()) : std::nullopt;
        if (!items || group->settings.contains("wd_mult")) return {};
        for (const std::string& item : *items) {
            const auto [own, is_new] = result.emplace(item, *group);
            if (!is_new) return {};
            own->second.group = item;
            own->second.settings.erase("params");
        }
    }
    return result;
}

Groups pointers(const std::map<std::string, SettingGroup>& groups) {
    Groups result;
    for (const auto& [name, group] : groups) result.push_back(&group);
    return result;
}

class GroupComparer {
public:
    GroupComparer(const GroupEntries& entries, Comparison& result) : entries_{entries}, result_{result} {}

    void run(std::span<const SettingGroup> a, std::span<const SettingGroup> b) {
        const auto of_a = by_optimizer(a);
        const auto of_b = by_optimizer(b);
        several_ = of_a.size() > 1;
        if (of_a.size() != of_b.size()) {
            compare_sets("", all(a), all(b));
        } else {
            // Optimizers with equal names are in the same order; those with other names can only be matched by order.
            for (auto one = of_a.begin(), other = of_b.begin(); one != of_a.end(); ++one, ++other)
                compare_optimizer(one->second, other->second);
        }
        result_.values += compared_.size();
    }

private:
    using Settings = std::map<std::string, Texts, std::less<>>;

    static Groups all(std::span<const SettingGroup> groups) {
        Groups result;
        for (const SettingGroup& group : groups) result.push_back(&group);
        return result;
    }

    void compare_optimizer(Groups a, Groups b) {
        const auto sorted = [](Groups groups, auto&& key) {
            std::ranges::stable_sort(groups, {}, [&](const SettingGroup* group) { return key(*group); });
            return groups;
        };
        const auto alike = [](const Groups& one, const Groups& other, auto&& key) {
            const auto text = [&](const SettingGroup* group) { return key(*group); };
            return std::ranges::equal(one, other, {}, text, text);
        };
        const std::string prefix = several_ && !a[0]->optimizer.empty() ? a[0]->optimizer + "." : "";
        const Groups a_named = sorted(a, identity), b_named = sorted(b, identity);
        const bool same = alike(a_named, b_named, identity);
        const auto of_a = same ? std::map<std::string, SettingGroup>{} : by_parameters(a);
        const auto of_b = same ? std::map<std::string, SettingGroup>{} : by_parameters(b);
        const auto name = [](const auto& entry) -> const std::string& { return entry.first; };
        if (!of_a.empty() && std::ranges::equal(of_a, of_b, {}, name, name))
            return compare_pairs(prefix, pointers(of_a), pointers(of_b), true);
        if (!same && a.size() != b.size()) return compare_sets(prefix, a, b);
        const Groups a_full = sorted(a, contents), b_full = sorted(b, contents);
        if (same)
            a = a_named, b = b_named;
        else if (alike(a_full, b_full, contents))
            a = a_full, b = b_full;
        compare_pairs(prefix, a, b, same);
    }

    /// Compares key by key. A key that one side lacks in all groups, or that has the same two values in every pair of
    /// groups, is one difference.
    void compare_pairs(const std::string& prefix, const Groups& a, const Groups& b, bool same) {
        if (entries_.step) compare_group_steps(prefix, a, b);
        const Settings of_a = united(a), of_b = united(b);
        for (const std::string& key : keys_of(of_a, of_b, same)) {
            std::set<std::pair<Texts, Texts>> found;
            for (std::size_t k = 0; k < a.size(); ++k) found.emplace(texts(*a[k], key), texts(*b[k], key));
            if (found.size() == 1 || !of_a.contains(key) || !of_b.contains(key)) {
                compare_texts(prefix + "param_groups." + key, key, texts(of_a, key), texts(of_b, key), true);
                continue;
            }
            // Groups with the same two values are named together.
            for (const auto& [first, second] : found)
                compare_texts(name_of_groups(prefix, key, a, b, {first, second}), key, first, second);
        }
    }

    /// Entry `key` of the groups that have these texts in A and in B: "param_groups.0.lr and 2 more".
    static std::string name_of_groups(const std::string& prefix, const std::string& key, const Groups& a,
                                      const Groups& b, const std::pair<Texts, Texts>& both) {
        std::vector<std::string> names;
        for (std::size_t k = 0; k < a.size(); ++k)
            if (texts(*a[k], key) == both.first && texts(*b[k], key) == both.second) names.push_back(a[k]->group);
        const std::string more = names.size() > 1 ? fmt::format(" and {} more", names.size() - 1) : "";
        return fmt::format("{}param_groups.{}.{}{}", prefix, names[0], key, more);
    }

    /// Reports groups that lack a step, or that have the step of another group. If one side has no steps in its groups,
    /// or has other steps, compare_steps() reports that.
    void compare_group_steps(const std::string& prefix, const Groups& a, const Groups& b) {
        const Texts of_a = texts(united(a), "step"), of_b = texts(united(b), "step");
        if (of_a.empty() || of_b.empty()) return;
        std::map<std::pair<Texts, Texts>, std::size_t> found;  // the first pair of groups with these texts
        for (std::size_t k = 0; k < a.size(); ++k)
            found.emplace(std::pair{texts(*a[k], "step"), texts(*b[k], "step")}, k);
        for (const auto& [both, k] : found) {
            const auto& [first, second] = both;
            const bool lacking = first.empty() || second.empty();
            if (first == second || (!lacking && of_a != of_b)) continue;
            add_difference("step", name_of_groups(prefix, "step", a, b, both), as_stored(*a[k], "step"),
                           as_stored(*b[k], "step"));
        }
    }

    void compare_sets(const std::string& prefix, const Groups& a, const Groups& b) {
        const Settings of_a = united(a), of_b = united(b);
        for (const std::string& key : keys_of(of_a, of_b, false))
            compare_texts(prefix + "param_groups." + key, key, texts(of_a, key), texts(of_b, key));
    }

    static Texts texts(const Settings& settings, const std::string& key) {
        const auto found = settings.find(key);
        return found == settings.end() ? Texts{} : normal(found->second);
    }
    static Texts texts(const SettingGroup& group, const std::string& key) { return texts(group.settings, key); }

    /// Texts as they are stored, not in normal form.
    static Texts as_stored(const SettingGroup& group, std::string_view key) {
        const auto found = group.settings.find(key);
        return found == group.settings.end() ? Texts{} : found->second;
    }

    static Settings united(const Groups& groups) {
        Settings result;
        for (const SettingGroup* group : groups)
            for (const auto& [key, texts] : group->settings) result[key].insert(texts.begin(), texts.end());
        return result;
    }

    /// The settings to compare: all except steps, bookkeeping and, unless groups have the `same` parameters, settings
    /// that were compared by parameter.
    std::set<std::string> keys_of(const Settings& a, const Settings& b, bool same) const {
        std::set<std::string> keys;
        for (const Settings* side : {&a, &b})
            for (const auto& [key, texts] : *side) {
                const bool of_parameters = formats::is_parameter_setting(key);
                if (key == "step" || !entries_.settings) continue;
                if (!of_parameters && formats::is_bookkeeping("param_groups.0." + key)) continue;
                if (same || !entries_.by_parameter || !of_parameters) keys.insert(key);
            }
        return keys;
    }

    void compare_texts(const std::string& name, const std::string& key, const Texts& a, const Texts& b,
                       bool lacks_everywhere = false) {
        const bool parameter = entries_.by_parameter && formats::is_parameter_setting(key);
        if (a.empty() != b.empty() && says_nothing(key, a.empty() ? b : a)) return;
        // The learning rate replaces a missing initial_lr. A key that one side lacks in all groups is compared
        // elsewhere.
        if (a.empty() != b.empty() && parameter && (key == "initial_lr" || lacks_everywhere)) return;
        if (!a.empty() && !b.empty() && !parameter) compared_.insert(key);
        if (a == b || (parameter && is_reported(key, text_of(a), text_of(b)))) return;
        add_difference("settings", name, a, b);
    }

    void add_difference(const std::string& role, const std::string& name, const Texts& a, const Texts& b) {
        const char lacking = a.empty() ? 'A' : b.empty() ? 'B' : '\0';
        result_.differences.push_back({.role = role,
                                       .name = name,
                                       .canonical = "",
                                       .a = text_of(a),
                                       .b = text_of(b),
                                       .cause = lacking == 0 ? "differs" : fmt::format("{} lacks it", lacking),
                                       .value = true,
                                       .lacking = lacking});
    }

    /// Whether the same two values were already reported for a parameter. There, a missing value is replaced by its
    /// default, and betas are two settings.
    bool is_reported(const std::string& key, const std::string& a, const std::string& b) const {
        const std::string word = key == "betas" ? "beta" : key + " of ";
        return std::ranges::any_of(result_.differences, [&](const Comparison::Difference& known) {
            return known.role == "settings" && known.name.starts_with(word) &&
                   (key == "betas" || ((a.empty() || known.a == a) && (b.empty() || known.b == b)));
        });
    }

    GroupEntries entries_;
    Comparison& result_;
    bool several_ = false;            // A has several optimizers
    std::set<std::string> compared_;  // keys
};

}  // namespace

void compare_groups(std::span<const SettingGroup> a, std::span<const SettingGroup> b, const GroupEntries& entries,
                    Comparison& result) {
    if (!a.empty() && !b.empty()) GroupComparer{entries, result}.run(a, b);
}

}  // namespace tpx::cli
