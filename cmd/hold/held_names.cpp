// SPDX-License-Identifier: Apache-2.0
#include "cmd/hold/held_names.hpp"

#include "cmd/jobs/keeper_client.hpp"
#include "lib/core/error.hpp"
#include "lib/core/units.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <chrono>
#include <optional>

namespace tpx::cli {
namespace {

using Json = nlohmann::ordered_json;

bool is_number(const Json& object, const char* key) { return object.contains(key) && object[key].is_number(); }

/// Whether an answer to "list" contains what print_state() prints.
bool is_state(const Json& state) {
    const auto is_rank = [](const Json& rank) {
        return rank.is_object() && is_number(rank, "rank") && rank.contains("state") && rank["state"].is_string() &&
               (!rank.contains("by") || is_number(rank, "by")) &&
               (!rank.contains("bytes") || is_number(rank, "bytes")) &&
               (!rank.contains("gpu") || is_number(rank, "gpu")) &&
               (!rank.contains("iteration") || is_number(rank, "iteration"));
    };
    return is_number(state, "process") && state.contains("seconds_left") &&
           (state["seconds_left"].is_null() || state["seconds_left"].is_number()) && state.contains("ranks") &&
           state["ranks"].is_array() && std::ranges::all_of(state["ranks"], is_rank);
}

/// The answer of the keeper `name` to "list", or {"name", "problem"}; unset if the keeper has ended.
std::optional<Json> state_of(const std::string& name) {
    constexpr std::chrono::seconds patience{2};
    std::optional<KeeperClient> keeper;
    try {
        keeper.emplace(name);
    } catch (const Error&) {
        return std::nullopt;
    }
    try {
        Json state = keeper->request({{"op", "list"}}, patience);
        if (!is_state(state)) return Json{{"name", name}, {"problem", "unknown answer of the keeper"}};
        state["name"] = name;
        return state;
    } catch (const Error&) {
        if (keeper->has_ended()) return std::nullopt;
        return Json{{"name", name}, {"problem", "still reads its checkpoint, or does not answer"}};
    }
}

void print_state(const Json& state, Output& out) {
    if (state.contains("problem"))
        return out.result("{}{}  {}\n", held_prefix, state["name"].get<std::string>(),
                          state["problem"].get<std::string>());
    const std::string remaining = state["seconds_left"].is_null()
                                      ? "no timeout"
                                      : fmt::format("{} left", format_seconds(state["seconds_left"].get<double>()));
    out.result("{}{}  process {}, {}\n", held_prefix, state["name"].get<std::string>(), state["process"].get<int>(),
               remaining);
    for (const Json& rank : state["ranks"]) {
        out.result("  rank {}: {}", rank["rank"].get<int>(), rank["state"].get<std::string>());
        if (rank.contains("gpu")) out.result(" on GPU {}", rank["gpu"].get<int>());
        if (rank.contains("by")) out.result(" by process {}", rank["by"].get<int>());
        if (rank.contains("bytes")) out.result(", {}", format_size(rank["bytes"].get<std::uint64_t>()));
        if (rank.contains("iteration")) out.result(", iteration {}", rank["iteration"].get<std::int64_t>());
        out.result("\n");
    }
}

}  // namespace

void list_held(Output& out) {
    Json keepers = Json::array();
    for (const std::string& name : keeper_names())
        if (const auto state = state_of(name)) keepers.push_back(*state);
    if (out.json()) return out.object("tpx.hold-list/1", {{"keepers", keepers}});
    for (const Json& keeper : keepers) print_state(keeper, out);
    if (keepers.empty()) out.result("nothing is held\n");
}

void release_held(const std::string& name, Output& out) {
    constexpr std::chrono::seconds patience{10};
    KeeperClient{name}.request({{"op", "release"}}, patience);
    if (out.json()) return out.object("tpx.hold-release/1", {{"name", name}, {"released", true}});
    out.result("released {}{}\n", held_prefix, name);
}

}  // namespace tpx::cli
