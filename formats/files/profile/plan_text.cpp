// SPDX-License-Identifier: Apache-2.0
#include "formats/files/profile/plan_text.hpp"

#include "lib/core/error.hpp"
#include "lib/core/lower_case.hpp"
#include "lib/core/take_while.hpp"
#include "lib/model/execution_plan.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>

namespace tpx::formats {
namespace {

// The words of an execution plan for `name` with `number`, which may be empty; nothing if the name is unknown.
std::optional<std::string> words_for(std::string_view name, std::string_view number) {
    constexpr std::array<std::string_view, 8> degrees{"dp", "tp", "pp", "cp", "vpp", "mb", "ga", "zero"};
    const bool is_sharded = name == "fsdp";
    if (number.empty()) {
        if (is_sharded) return "dp=*,zero=3";
        if (name == "ddp") return "dp=*";
        return name == "sp" || name == "offload" ? std::optional{std::string{name}} : std::nullopt;
    }
    if (is_sharded) return fmt::format("dp={},zero=3", number);
    return std::ranges::count(degrees, name) > 0 ? std::optional{fmt::format("{}={}", name, number)} : std::nullopt;
}

// The plan that `given` names; nothing if a part of it is unknown or occurs twice.
std::optional<std::string> spelled_plan(std::string_view given) {
    const std::string lower = lower_case(given);
    std::string_view text = lower;
    std::string plan;
    const auto is_one_of = [](std::string_view set) { return [set](char c) { return set.find(c) != set.npos; }; };
    while (true) {
        take_while(text, is_one_of(" ,;/+-_|x"));
        if (text.empty()) return plan.empty() ? std::nullopt : std::optional{plan};
        const std::string_view name = take_while(text, [](char c) { return c >= 'a' && c <= 'z'; });
        const std::string_view after_name = text;
        take_while(text, is_one_of("=: -_"));
        const std::string_view number = take_while(text, is_one_of("0123456789"));
        if (number.empty()) text = after_name;
        const auto words = words_for(name, number);
        if (!words) return std::nullopt;
        const std::string key = fmt::format(",{}", words->substr(0, words->find('=')));
        if (fmt::format(",{}", plan).find(key) != plan.npos) return std::nullopt;
        plan += (plan.empty() ? "" : ",") + *words;
    }
}

// Whether parse_execution_plan() reads `text`, with a number in place of "*".
bool is_execution_plan(std::string text) {
    std::ranges::replace(text, '*', '1');
    try {
        (void)parse_execution_plan(text);
        return true;
    } catch (const Error&) {
        return false;
    }
}

}  // namespace

std::string plan_text(std::string_view text) {
    std::string given{text};
    if (is_execution_plan(given)) return given;
    const auto spelled = spelled_plan(text);
    return spelled && is_execution_plan(*spelled) ? *spelled : given;
}

bool is_plan_text(std::string_view text) { return is_execution_plan(plan_text(text)); }

}  // namespace tpx::formats
