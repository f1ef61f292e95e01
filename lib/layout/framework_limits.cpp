// SPDX-License-Identifier: Apache-2.0
#include "lib/layout/framework_limits.hpp"

#include "lib/core/error.hpp"
#include "lib/layout/condition.hpp"

namespace tpx {

void check_framework_limits(const ExpressedState& expressed, const std::string& dialect, const Config& config) {
    const Config known = with_tensor_keys(expressed, config);
    const Lookup lookup = [&](std::string_view word) -> std::optional<ConfigValue> {
        const auto found = known.find(word);
        return found == known.end() ? std::nullopt : std::optional{found->second};
    };
    const auto limits = expressed.reading.family->limits.find(dialect);
    if (limits == expressed.reading.family->limits.end()) return;
    for (const auto& [setting, limit] : limits->second) {
        if (evaluate_condition(limit.condition, lookup).value_or(true)) continue;
        const auto found = known.find(setting);
        const std::string advice =
            limit.value.empty() ? "" : fmt::format("; --set {}={} ignores this difference", setting, limit.value);
        throw failure("{} {}: {}{}", setting,
                      found == known.end() ? "is not given" : fmt::format("= {}", value_text(found->second)),
                      limit.reason, advice);
    }
}

}  // namespace tpx
