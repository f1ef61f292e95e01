// SPDX-License-Identifier: Apache-2.0
#include "formats/state/rank_settings.hpp"

#include "formats/state/value_text.hpp"
#include "lib/core/error.hpp"

namespace tpx::formats {
namespace {

using torch::Kind;
using torch::Value;

// Limits recursion: values in pickles may contain themselves.
constexpr int deepest = 8;

constexpr const char* mixture = "the files are of different iterations or runs";

/// The name of the entry with `key` in the dict `name`; unset unless the key is a string or an int.
std::optional<std::string> entry_name(const std::string& name, Value key) {
    if (key.is(Kind::string)) return fmt::format("{}.{}", name, key.as_string());
    if (key.is(Kind::integer)) return fmt::format("{}.{}", name, key.as_int());
    return std::nullopt;
}

/// Calls `visit(name, text)` for each scalar in `value`, and with an empty text for each other object.
template <class Visit>
void for_each_value(const std::string& name, Value value, int depth, Visit&& visit) {
    if (const auto text = scalar_text(value)) return visit(name, *text);
    if (depth == deepest) return;
    if (value.is(Kind::dict)) {
        for (const auto& [key, item] : value.entries())
            if (const auto entry = entry_name(name, key)) for_each_value(*entry, item, depth + 1, visit);
    } else if (value.is(Kind::object)) {
        const auto args = value.as_object().args;  // of a member of an enum: its value
        const bool single = args.is(Kind::tuple) && args.items().size() == 1;
        visit(name, single ? scalar_text(args.items()[0]).value_or("") : std::string{});
    } else if (value.is(Kind::list) || value.is(Kind::tuple)) {
        for (std::size_t k = 0; k < value.items().size(); ++k)
            for_each_value(fmt::format("{}[{}]", name, k), value.items()[k], depth + 1, visit);
    }
}

std::string shown(const std::string& text) { return text.empty() ? "present" : text; }

}  // namespace

void RankSettings::add(const std::filesystem::path& file, const std::string& name, Value value) {
    Values values;
    for_each_value(name, value, 0, [&](const std::string& at, const std::string& text) { values.emplace(at, text); });
    compare(file, name, std::move(values));
}

void RankSettings::add(const std::filesystem::path& file, const std::string& name, std::optional<Value> value) {
    value ? add(file, name, *value) : compare(file, name, {});
}

void RankSettings::add_keys(const std::filesystem::path& file, const std::string& name, Value dict,
                            const std::function<bool(std::string_view)>& skip) {
    Values values;
    for (const auto& [key, item] : dict.entries()) {
        const auto entry = entry_name(name, key);
        const bool skipped = skip && key.is(Kind::string) && skip(key.as_string());
        if (entry && !item.is_none() && !skipped) values.emplace(*entry, "");
    }
    compare(file, name, std::move(values));
}

void RankSettings::add_groups(const std::filesystem::path& file, const std::string& name, Value groups) {
    if (!groups.is(Kind::list)) return;
    for (const Value group : groups.items()) {
        if (!group.is(Kind::dict)) continue;
        std::string kind;
        for (const char* key : {"wd_mult", "lr_mult", "is_expert_parallel", "is_decoupled_lr", "default_config"}) {
            const auto found = group.find(key);
            const auto text = found ? scalar_text(*found) : std::nullopt;
            if (text) kind += fmt::format("{}{}={}", kind.empty() ? "" : ", ", key, *text);
        }
        const std::string full = fmt::format("{}[{}]", name, kind);
        Values values;
        for (const auto& [key, item] : group.entries()) {
            if (!key.is(Kind::string) || key.as_string() == "params") continue;
            for_each_value(fmt::format("{}.{}", full, key.as_string()), item, 0,
                           [&](const std::string& at, const std::string& text) { values.emplace(at, text); });
        }
        compare(file, full, std::move(values));
    }
}

void RankSettings::compare(const std::filesystem::path& file, const std::string& name, Values values) {
    const auto [known, is_new] = known_.try_emplace(name, Known{values, file});
    if (is_new) return;
    const auto& [others, other] = known->second;
    for (const auto& [at, value] : values) {
        const auto found = others.find(at);
        if (found != others.end() && found->second != value)
            throw failure("{}: '{}' is {}, but {} in {}; {}", file.string(), at, shown(value), shown(found->second),
                          other.string(), mixture);
        if (found == others.end() && value != "None")
            throw failure("{}: '{}' is {}, but missing in {}; {}", file.string(), at, shown(value), other.string(),
                          mixture);
    }
    for (const auto& [at, value] : others)
        if (!values.contains(at) && value != "None")
            throw failure("{}: '{}' is missing, but {} in {}; {}", file.string(), at, shown(value), other.string(),
                          mixture);
}

}  // namespace tpx::formats
