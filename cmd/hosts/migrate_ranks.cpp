// SPDX-License-Identifier: Apache-2.0
#include "cmd/hosts/migrate_ranks.hpp"

#include "formats/files/data/rank_shares.hpp"
#include "formats/files/merged_stores.hpp"

#include <algorithm>

namespace tpx::cli {
namespace {

using Json = nlohmann::ordered_json;

/// The environment variables that a launcher sets for one rank: those of torchrun, and the degrees of the layout.
Json environment_of(const Layout& layout, int rank, int local_rank, std::size_t local_ranks, const std::string& state) {
    Json variables{{"RANK", std::to_string(rank)},
                   {"WORLD_SIZE", std::to_string(layout.ranks())},
                   {"LOCAL_RANK", std::to_string(local_rank)},
                   {"LOCAL_WORLD_SIZE", std::to_string(local_ranks)},
                   {"TPX_STATE", state},
                   {"TPX_LAYOUT", to_string(layout)}};
    const std::pair<const char*, int> degrees[] = {
        {"TPX_TP", layout.tp}, {"TPX_PP", layout.pp},     {"TPX_DP", layout.dp},    {"TPX_CP", layout.cp},
        {"TPX_EP", layout.ep}, {"TPX_FSDP", layout.fsdp}, {"TPX_ZERO", layout.zero}};
    for (const auto& [name, degree] : degrees) variables[name] = std::to_string(degree);
    return variables;
}

/// The devices of `host` that are not lost, ascending.
std::vector<std::int32_t> free_devices_of(const Host& host) {
    std::vector<std::int32_t> devices;
    for (std::int32_t device = 0; device < host.gpus; ++device)
        if (!is_lost(host, device)) devices.push_back(device);
    return devices;
}

/// The devices of the ranks of `recorded` on `host`; `as_recorded` becomes false if they are not those in the
/// manifest, because one of these is lost.
std::vector<std::int32_t> devices_of(const formats::ManifestHost& recorded, const Host& host, bool& as_recorded) {
    std::vector<std::int32_t> devices = recorded.devices;
    if (devices.empty())
        for (std::int32_t k = 0; k < std::ssize(recorded.ranks); ++k) devices.push_back(k);
    if (std::ranges::none_of(devices, [&](int device) { return device >= host.gpus || is_lost(host, device); }))
        return devices;
    as_recorded = false;
    return free_devices_of(host);
}

}  // namespace

RankPlaces rank_places(const Migration& job) {
    RankPlaces places{.layout = job.target.layout,
                      .batch = job.batch,
                      .hosts = job.change.hosts,
                      .host_of_rank = hosts_of_ranks(job)};
    const std::vector<std::int32_t> firsts = first_devices(job.change.hosts);
    for (std::size_t rank = 0; rank < places.host_of_rank.size(); ++rank)
        places.device_of_rank.push_back(job.devices[rank] - firsts[places.host_of_rank[rank]]);
    return places;
}

std::optional<RankPlaces> rank_places(const formats::Manifest& manifest, std::span<const Host> hosts, Index batch) {
    RankPlaces places{.layout = parse_layout(manifest.layout), .batch = batch, .hosts = hosts};
    const auto ranks = static_cast<std::size_t>(places.layout.ranks());
    places.host_of_rank.resize(ranks);
    places.device_of_rank.resize(ranks);
    std::size_t placed = 0;
    for (const formats::ManifestHost& host : manifest.hosts) {
        const auto here = std::ranges::find(hosts, host.name, &Host::name);
        if (here == hosts.end()) return std::nullopt;
        const std::vector<std::int32_t> devices = devices_of(host, *here, places.as_recorded);
        if (devices.size() < host.ranks.size()) return std::nullopt;
        for (std::size_t k = 0; k < host.ranks.size(); ++k) {
            const auto rank = static_cast<std::size_t>(host.ranks[k]);
            if (rank >= ranks) return std::nullopt;
            places.host_of_rank[rank] = static_cast<std::uint32_t>(here - hosts.begin());
            places.device_of_rank[rank] = devices[k];
            ++placed;
        }
    }
    return placed == ranks ? std::optional{std::move(places)} : std::nullopt;
}

Json ranks_json(const RankPlaces& places, const std::string& pattern, const std::string& data_store) {
    const auto folder_of = [](const std::string& folders, const Host& host) {
        return std::filesystem::absolute(formats::store_of(folders, host)).string();
    };
    Json ranks = Json::array();
    std::vector<int> local_ranks(places.hosts.size()), local_sizes(places.hosts.size());
    std::vector<std::string> devices(places.hosts.size());
    for (std::size_t rank = 0; rank < places.host_of_rank.size(); ++rank) {
        std::string& list = devices[places.host_of_rank[rank]];
        list += fmt::format("{}{}", list.empty() ? "" : ",", places.device_of_rank[rank]);
        ++local_sizes[places.host_of_rank[rank]];
    }
    for (std::size_t rank = 0; rank < places.host_of_rank.size(); ++rank) {
        const std::uint32_t host = places.host_of_rank[rank];
        const int number = static_cast<int>(rank);
        Json environment =
            environment_of(places.layout, number, local_ranks[host]++, static_cast<std::size_t>(local_sizes[host]),
                           folder_of(pattern, places.hosts[host]));
        environment["CUDA_VISIBLE_DEVICES"] = devices[host];  // so that cuda:$LOCAL_RANK is the device of the rank
        if (!data_store.empty()) environment["TPX_DATA"] = folder_of(data_store, places.hosts[host]);
        if (places.layout.vn > 0) formats::add_share(environment, places.layout, places.batch, number);
        ranks.push_back({{"rank", rank},
                         {"host", places.hosts[host].name},
                         {"device", places.device_of_rank[rank]},
                         {"env", std::move(environment)}});
        if (places.layout.vn > 0) ranks.back()["share"] = formats::share_json(places.layout, places.batch, number);
    }
    return ranks;
}

}  // namespace tpx::cli
