// SPDX-License-Identifier: Apache-2.0
#include "formats/files/profile/logs/framework_log.hpp"

#include <algorithm>
#include <optional>

namespace tpx::formats {
namespace {

// What the field gets; nothing where the value is unknown.
std::optional<std::string_view> field_value(SettingKind kind, std::string_view value) {
    constexpr std::size_t longest_number = 15;
    if (kind == SettingKind::flag) return is_true_text(value) ? std::optional<std::string_view>{"1"} : std::nullopt;
    if (value.empty() || value == "None" || value == "null" || value == "auto") return std::nullopt;
    const bool is_number =
        value.size() <= longest_number && std::ranges::all_of(value, [](char c) { return c >= '0' && c <= '9'; });
    return kind == SettingKind::word || is_number ? std::optional{value} : std::nullopt;
}

}  // namespace

bool is_true_text(std::string_view text) { return text == "True" || text == "true" || text == "1"; }

void read_setting(std::span<const LogSetting> settings, const LogLine& line, LogRun& run) {
    if (line.key.empty()) return;
    const auto setting = std::ranges::find(settings, line.key, &LogSetting::key);
    if (setting == settings.end()) return;
    const auto value = field_value(setting->kind, line.value);
    if (!line.is_argument) {
        if (value) run.set_first(setting->field, *value);
    } else if (value) {
        run.set(setting->field, *value);
    } else {
        run.forget(setting->field);
    }
}

}  // namespace tpx::formats
