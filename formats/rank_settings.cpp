// SPDX-License-Identifier: Apache-2.0
#include "formats/rank_settings.hpp"

#include "formats/state/value_text.hpp"
#include "lib/core/error.hpp"

namespace tpx::formats {
namespace {

using torch::Kind;
using torch::Value;

// Pickles may refer to themselves.
constexpr int deepest = 8;

/// Calls `visit(name, text)` for each scalar in `value`.
template <class Visit>
void for_each_scalar(const std::string& name, Value value, int depth, Visit&& visit) {
    if (const auto text = scalar_text(value)) return visit(name, *text);
    if (depth == deepest) return;
    if (value.is(Kind::dict)) {
        for (const auto& [key, item] : value.entries())
            if (key.is(Kind::string))
                for_each_scalar(fmt::format("{}.{}", name, key.as_string()), item, depth + 1, visit);
    } else if (value.is(Kind::object) && value.as_object().args.is(Kind::tuple)) {  // a member of an enum
        const auto args = value.as_object().args.items();
        if (const auto text = args.size() == 1 ? scalar_text(args[0]) : std::nullopt) visit(name, *text);
    } else if (value.is(Kind::list) || value.is(Kind::tuple)) {
        for (std::size_t k = 0; k < value.items().size(); ++k)
            for_each_scalar(fmt::format("{}[{}]", name, k), value.items()[k], depth + 1, visit);
    }
}

}  // namespace

void RankSettings::add(const std::filesystem::path& file, const std::string& name, Value value) {
    for_each_scalar(name, value, 0,
                    [&](const std::string& at, const std::string& text) { add_scalar(file, at, text); });
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
        for (const auto& [key, item] : group.entries()) {
            if (key.is(Kind::string) && key.as_string() != "params")
                add(file, fmt::format("{}[{}].{}", name, kind, key.as_string()), item);
        }
    }
}

void RankSettings::add_scalar(const std::filesystem::path& file, const std::string& name, std::string value) {
    const auto [known, is_new] = known_.try_emplace(name, Known{value, file});
    if (!is_new && known->second.value != value)
        throw failure("{}: '{}' is {}, but {} in {}; the files are of different iterations or runs", file.string(),
                      name, value, known->second.value, known->second.file.string());
}

}  // namespace tpx::formats
