// SPDX-License-Identifier: Apache-2.0
#include "cmd/inspect/adapter_text.hpp"

#include "formats/adapters/adapter.hpp"
#include "lib/core/counted.hpp"
#include "lib/core/error.hpp"

#include <fmt/ranges.h>

#include <span>

namespace tpx::cli {
namespace {

std::string families_text(std::span<const std::string> families) {
    constexpr std::size_t shown = 5;
    if (families.empty()) return "unknown (no family matches the names of the adapted weights)";
    const std::size_t more = families.size() - std::min(families.size(), shown);
    return fmt::format("{}{}, hf names", fmt::join(families.first(families.size() - more), ", "),
                       more > 0 ? fmt::format(" or one of {} more", more) : "");
}

nlohmann::ordered_json adapter_json(const formats::Adapter& adapter, const std::vector<std::string>& families) {
    const formats::AdapterSettings& settings = adapter.settings;
    return {{"type", settings.dora ? "dora" : "lora"},
            {"base", settings.base},
            {"rank", settings.rank},
            {"alpha", settings.alpha},
            {"rslora", settings.rank_stabilized},
            {"target_modules", settings.targets},
            {"weights", adapter.weights.size()},
            {"replaced", adapter.replaced.size()},
            {"families", families},
            {"unmergeable", settings.unmergeable}};
}

}  // namespace

std::optional<AdapterText> adapter_text(OpenedCheckpoint& opened) {
    formats::Checkpoint& checkpoint = opened.source.checkpoint;
    if (!formats::is_adapter(checkpoint)) return std::nullopt;
    try {
        const formats::Adapter adapter = formats::read_adapter(checkpoint.catalogue.directory);
        const std::vector<std::string> families = formats::families_of(adapter, opened.source.families);
        return AdapterText{families_text(families), formats::describe(adapter), adapter_json(adapter, families)};
    } catch (const Error& error) {
        checkpoint.notes.push_back(error.what());
        return std::nullopt;
    }
}

}  // namespace tpx::cli
