// SPDX-License-Identifier: Apache-2.0
#include "formats/files/data/rank_shares.hpp"

#include "lib/core/file.hpp"
#include "lib/layout/virtual_nodes.hpp"

#include <fmt/format.h>

#include <numeric>
#include <string>

namespace tpx::formats {
namespace {

using Json = nlohmann::ordered_json;

/// The weight of a rank's mean gradient in that of a global batch; `samples` are the rank's samples.
double gradient_weight(Interval samples, Index batch) {
    return static_cast<double>(samples.size()) / static_cast<double>(batch);
}

}  // namespace

Json share_json(const Layout& layout, Index batch, int rank) {
    const int dp = coordinates(layout, rank).dp;
    const Interval nodes = virtual_nodes_of(layout, dp);
    Json share{{"dp_rank", dp}, {"virtual_nodes", Json::array()}};
    for (Index node = nodes.begin; node < nodes.end; ++node) {
        share["virtual_nodes"].push_back({{"number", node}});
        if (batch == 0) continue;
        const Interval samples = samples_of({node, node + 1}, layout.vn, batch);
        share["virtual_nodes"].back()["samples"] = {samples.begin, samples.end};
    }
    if (batch == 0) return share;
    const Interval samples = samples_of(nodes, layout.vn, batch);
    share["samples"] = {samples.begin, samples.end};
    share["local_batch"] = samples.size();
    share["gradient_weight"] = gradient_weight(samples, batch);
    return share;
}

void add_share(Json& environment, const Layout& layout, Index batch, int rank) {
    const Interval nodes = virtual_nodes_of(layout, coordinates(layout, rank).dp);
    environment["TPX_VN"] = std::to_string(layout.vn);
    environment["TPX_VN_BEGIN"] = std::to_string(nodes.begin);
    environment["TPX_VN_END"] = std::to_string(nodes.end);
    if (batch == 0) return;
    const Interval samples = samples_of(nodes, layout.vn, batch);
    environment["TPX_GLOBAL_BATCH"] = std::to_string(batch);
    environment["TPX_LOCAL_BATCH"] = std::to_string(samples.size());
    environment["TPX_GRADIENT_WEIGHT"] = fmt::format("{}", gradient_weight(samples, batch));
}

std::string data_position_text(const DataPosition& position, const Layout& layout) {
    Json json = to_json(position);
    json["ranks"] = Json::array();
    for (int rank = 0; rank < layout.ranks(); ++rank) {
        const Interval nodes = virtual_nodes_of(layout, coordinates(layout, rank).dp);
        const Interval next = shift(samples_of(nodes, layout.vn, position.batch), position.consumed);
        json["ranks"].push_back({{"rank", rank}});
        json["ranks"].back().update(share_json(layout, position.batch, rank));
        json["ranks"].back()["next_positions"] = {next.begin, next.end};
    }
    return json.dump(1) + '\n';
}

std::optional<StoredNodes> read_stored_nodes(const std::filesystem::path& folder, int dp) {
    const std::optional<DataPosition> position = read_data_position(folder);
    if (!position) return std::nullopt;
    const Json json = Json::parse(read_file(folder / data_position_name), nullptr, false);
    StoredNodes nodes{position->virtual_nodes, std::vector<int>(static_cast<std::size_t>(dp))};
    try {
        for (const Json& rank : json.at("ranks"))
            nodes.parts.at(rank.at("dp_rank").get<std::size_t>()) = static_cast<int>(rank.at("virtual_nodes").size());
    } catch (const std::exception&) {  // the ranks are those of another layout
        nodes.parts.clear();
    }
    if (std::accumulate(nodes.parts.begin(), nodes.parts.end(), 0) != nodes.count) nodes.parts.clear();
    bool is_even = true;
    for (int k = 0; k < std::ssize(nodes.parts); ++k)
        is_even = is_even && part({0, nodes.count}, dp, k).size() == nodes.parts[k];
    if (is_even) nodes.parts.clear();
    return nodes;
}

}  // namespace tpx::formats
