// SPDX-License-Identifier: Apache-2.0
#include "cmd/verify/compare_settings.hpp"

#include "formats/state/adam.hpp"
#include "formats/state/value_text.hpp"
#include "formats/values/value_paths.hpp"
#include "lib/core/error.hpp"
#include "lib/exec/state_check.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <set>

namespace tpx::cli {
namespace {

using formats::Adam;
using formats::AdamSettings;
using formats::SettingGroup;

struct Setting {
    std::string_view name;
    std::string_view key;  ///< in a parameter group
    double AdamSettings::*value;
};
constexpr std::array<Setting, 6> all_settings{{{"lr", "lr", &AdamSettings::lr},
                                               {"initial_lr", "initial_lr", &AdamSettings::initial_lr},
                                               {"beta1", "betas", &AdamSettings::beta1},
                                               {"beta2", "betas", &AdamSettings::beta2},
                                               {"eps", "eps", &AdamSettings::eps},
                                               {"weight_decay", "weight_decay", &AdamSettings::weight_decay}}};

/// Whether a checkpoint stores setting `key` of a group: as a value, or as a tensor.
bool stores(const ComparedCheckpoint& member, std::span<const SettingGroup> groups, std::string_view key) {
    if (std::ranges::any_of(groups, [&](const SettingGroup& group) { return group.settings.contains(key); }))
        return true;
    constexpr std::string_view word = "param_groups.";
    return std::ranges::any_of(member.source->checkpoint.catalogue.tensors, [&](const Tensor& tensor) {
        const std::size_t at = tensor.name.find(word);
        return at != tensor.name.npos && (tensor.name + ".").find(fmt::format(".{}.", key), at) != tensor.name.npos;
    });
}

/// The settings that both checkpoints store: an optimizer without betas has no default for them. For initial_lr, one
/// checkpoint is enough: in the other, the learning rate replaces it.
std::vector<Setting> stored_settings(const ComparedCheckpoint& a, std::span<const SettingGroup> of_a,
                                     const ComparedCheckpoint& b, std::span<const SettingGroup> of_b) {
    std::vector<Setting> stored{all_settings.begin(), all_settings.end()};
    std::erase_if(stored, [&](const Setting& setting) {
        if (setting.key == "initial_lr") return !stores(a, of_a, setting.key) && !stores(b, of_b, setting.key);
        return (!of_a.empty() && !stores(a, of_a, setting.key)) || (!of_b.empty() && !stores(b, of_b, setting.key));
    });
    return stored;
}

/// Reports the settings that only one side stores, except initial_lr, which the learning rate replaces.
void add_lacking(const ComparedCheckpoint& a, const ComparedCheckpoint& b, const SettingGroups& groups,
                 Comparison& result) {
    if (groups.a.empty() || groups.b.empty()) return;
    for (const std::string_view key : {"lr", "betas", "eps", "weight_decay"}) {
        const bool in_a = stores(a, groups.a, key);
        if (in_a == stores(b, groups.b, key)) continue;
        std::set<std::string> texts;
        for (const SettingGroup& group : in_a ? groups.a : groups.b)
            if (const auto found = group.settings.find(key); found != group.settings.end())
                texts.insert(found->second.begin(), found->second.end());
        const std::string text = fmt::format("{}", fmt::join(texts, "; "));
        const char lacking = in_a ? 'B' : 'A';
        result.differences.push_back({.role = "settings",
                                      .name = fmt::format("param_groups.{}", key),
                                      .canonical = "",
                                      .a = in_a ? text : "",
                                      .b = in_a ? "" : text,
                                      .cause = fmt::format("{} lacks it", lacking),
                                      .value = true,
                                      .lacking = lacking});
    }
}

/// The settings of one checkpoint for each parameter, by the name under which its exp_avg is compared.
class Settings {
public:
    explicit Settings(const ComparedCheckpoint& member) : adam_{member.adam} {
        if (!adam_) return;
        const auto& tensors = member.source->checkpoint.catalogue.tensors;
        for (const auto& [name, number] : member.numbers) {
            if (member.digested.canonical.roles[number] != Role::exp_avg) continue;
            const std::uint32_t stored = member.digested.canonical.stored[number];
            const int axes = formats::own_axes(member.source->reading, tensors, stored);
            of_parameters_.emplace(name, &adam_->of(tensors[stored].name, axes));
        }
    }

    const std::optional<Adam>& adam() const { return adam_; }
    const std::map<std::string, const AdamSettings*>& of_parameters() const { return of_parameters_; }

private:
    const std::optional<Adam>& adam_;
    std::map<std::string, const AdamSettings*> of_parameters_;
};

/// The number of parameters for which a setting differs, and the name of one of them.
struct Found {
    std::uint64_t count = 0;
    std::string example;
};

std::string without_role(const std::string& name) {
    return name.starts_with("exp_avg") ? name.substr(std::string_view{"exp_avg."}.size()) : name;
}

void compare_all(std::span<const Setting> stored, const AdamSettings& a, const AdamSettings& b, const std::string& name,
                 Comparison& result, std::map<std::array<std::string, 3>, Found>& found) {
    for (const Setting& setting : stored) {
        ++result.values;
        const double one = a.*setting.value;
        const double other = b.*setting.value;
        if (one == other) continue;
        Found& here = found[{std::string{setting.name}, formats::real_text(one), formats::real_text(other)}];
        if (++here.count == 1) here.example = name;
    }
}

bool has_tensors(const ComparedCheckpoint& member) { return member.roles.contains(Role::step); }

/// The distinct steps that tensors of `member` contain, ascending; std::nullopt if one of them is not a number.
std::optional<std::set<double>> steps_of(const mpi::Comm& comm, const ComparedCheckpoint& member) {
    const formats::CanonicalTensors& canonical = member.digested.canonical;
    std::vector<StateCheck> checks;
    for (std::uint32_t t = 0; t < canonical.tensors.size(); ++t) {
        if (canonical.roles[t] != Role::step) continue;
        if (!is_real(canonical.tensors[t].dtype)) return std::nullopt;
        checks.push_back({.tensor = t, .weight = {}, .squares = false});
    }
    const auto files = formats::paths(member.source->checkpoint.catalogue);
    std::set<double> steps;
    for (const StateFacts& facts : check_states(comm, canonical.side(), files, checks, {})) steps.insert(facts.largest);
    return steps;
}

std::string text_of(const AdamSettings& settings) {
    return fmt::format("{}, [{}, {}], {}, {}", settings.lr, settings.beta1, settings.beta2, settings.eps,
                       settings.weight_decay);
}

/// The same for groups whose parameters are unknown.
std::string text_of(std::span<const SettingGroup> groups) {
    std::set<std::string> texts;
    for (const SettingGroup& group : groups)
        for (const auto& [key, values] : group.settings)
            if (formats::is_parameter_setting(key)) texts.insert(fmt::format("{} {}", key, fmt::join(values, "; ")));
    return fmt::format("{}", fmt::join(texts, ", "));
}

/// Reports if only one side has any settings.
void add_one_sided(const std::optional<Adam>& a, const std::optional<Adam>& b, const SettingGroups& groups,
                   Comparison& result) {
    const bool in_a = a || !groups.a.empty(), in_b = b || !groups.b.empty();
    if (in_a == in_b) return;
    const auto has_betas = [](const SettingGroup& group) { return group.settings.contains("betas"); };
    const char lacking = in_a ? 'B' : 'A';
    const std::optional<Adam>& adam = in_a ? a : b;
    const std::span<const SettingGroup> of = in_a ? groups.a : groups.b;
    const bool known = adam && (of.empty() || std::ranges::all_of(of, has_betas));
    const std::string text = known ? text_of(adam->matrices) : text_of(of);
    result.differences.push_back({.role = "settings",
                                  .name = known ? "lr, betas, eps, weight_decay" : "lr, weight_decay, ...",
                                  .canonical = "",
                                  .a = in_a ? text : "",
                                  .b = in_b ? text : "",
                                  .cause = fmt::format("{} lacks it", lacking),
                                  .value = true,
                                  .lacking = lacking});
}

std::string text_of(const std::set<double>& steps) {
    std::vector<std::string> texts;
    for (const double step : steps) texts.push_back(fmt::format("{}", step));
    std::ranges::sort(texts);
    return fmt::format("{}", fmt::join(texts, "; "));
}

}  // namespace

bool compare_settings(const ComparedCheckpoint& a, const ComparedCheckpoint& b, const SettingGroups& groups,
                      Comparison& result) {
    const Settings of_a{a};
    const Settings of_b{b};
    if (!of_a.adam() || !of_b.adam()) {
        add_one_sided(of_a.adam(), of_b.adam(), groups, result);
        return false;
    }
    const auto several = [](std::span<const SettingGroup> of) {
        return std::ranges::any_of(of, [&](const SettingGroup& group) { return group.optimizer != of[0].optimizer; });
    };
    if (several(groups.a) && several(groups.b)) return false;
    const bool known = !of_a.of_parameters().empty() && !of_b.of_parameters().empty();
    if (!known && !groups.a.empty() && !groups.b.empty()) return false;
    add_lacking(a, b, groups, result);
    const std::vector<Setting> stored = stored_settings(a, groups.a, b, groups.b);
    std::map<std::array<std::string, 3>, Found> found;
    for (const auto& [name, settings] : of_a.of_parameters()) {
        const auto other = of_b.of_parameters().find(name);
        if (other != of_b.of_parameters().end()) compare_all(stored, *settings, *other->second, name, result, found);
    }
    if (!known) {
        compare_all(stored, of_a.adam()->matrices, of_b.adam()->matrices, "matrices", result, found);
        compare_all(stored, of_a.adam()->vectors, of_b.adam()->vectors, "vectors", result, found);
    }
    for (const auto& [key, where] : found)
        result.differences.push_back(
            {.role = "settings",
             .name = fmt::format("{} of {}{}", key[0], without_role(where.example),
                                 where.count > 1 ? fmt::format(" and {} more", where.count - 1) : ""),
             .canonical = "",
             .a = key[1],
             .b = key[2],
             .cause = "differs",
             .value = true});
    return true;
}

void compare_steps(const mpi::Comm& comm, const ComparedCheckpoint& a, const ComparedCheckpoint& b,
                   const std::pair<std::string, std::string>& of_groups, Comparison& result) {
    if (has_tensors(a) && has_tensors(b)) return;
    std::array<std::string, 2> texts{of_groups.first, of_groups.second};
    for (std::size_t k = 0; k < 2; ++k) {
        const ComparedCheckpoint& member = k == 0 ? a : b;
        if (!has_tensors(member)) continue;
        const auto steps = steps_of(comm, member);
        texts[k] = steps ? text_of(*steps) : "";
        if (steps) continue;
        result.not_compared.push_back({.role = "step",
                                       .name = "step",
                                       .canonical = "",
                                       .a = "",
                                       .b = "",
                                       .cause = "its tensors are not floating-point numbers",
                                       .value = true});
        return;
    }
    if (texts[0].empty() && texts[1].empty()) return;
    ++result.values;
    if (texts[0] == texts[1]) return;
    const char lacking = texts[0].empty() ? 'A' : texts[1].empty() ? 'B' : '\0';
    result.differences.push_back({.role = "step",
                                  .name = "step",
                                  .canonical = "",
                                  .a = texts[0],
                                  .b = texts[1],
                                  .cause = lacking == 0 ? "differs" : fmt::format("{} lacks it", lacking),
                                  .value = true,
                                  .lacking = lacking});
}

}  // namespace tpx::cli
