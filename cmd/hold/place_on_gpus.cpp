// SPDX-License-Identifier: Apache-2.0
#include "cmd/hold/place_on_gpus.hpp"

#include "lib/exec/device/move_copies.hpp"

#include <algorithm>
#include <filesystem>
#include <map>
#include <sstream>

namespace tpx::cli {

std::string to_text(const GpuPlaces& places) {
    std::string text;
    for (const auto& [rank, gpu] : places.sources) text += fmt::format("s {} {} ", rank, gpu);
    for (const auto& [rank, gpu] : places.targets) text += fmt::format("t {} {} ", rank, gpu);
    for (const int rank : places.cannot_send) text += fmt::format("q {} 0 ", rank);
    text += fmt::format("m {} 0 ", places.staging);
    return text + "l " + to_text(places.links);
}

GpuPlaces parse_gpu_places(const std::string& text) {
    GpuPlaces places;
    std::istringstream words{text};
    std::uint64_t value = 0;
    int gpu = 0;
    char side = 0;
    while (words >> side && side != 'l' && words >> value >> gpu) {
        if (side == 's') places.sources[static_cast<int>(value)] = gpu;
        if (side == 't') places.targets[static_cast<int>(value)] = gpu;
        if (side == 'q') places.cannot_send.insert(static_cast<int>(value));
        if (side == 'm') places.staging = value;
    }
    std::string links;
    if (std::getline(words, links)) places.links = parse_gpu_links(links);
    return places;
}

namespace {

namespace fs = std::filesystem;

/// The GPUs of `ranks`, by the file names of their segments.
std::map<fs::path, int> gpus_by_file(const std::map<int, int>& ranks) {
    std::map<fs::path, int> gpus;
    for (const auto& [rank, gpu] : ranks) gpus[segment_name(rank)] = gpu;
    return gpus;
}

int gpu_of(const fs::path& file, const std::map<fs::path, int>& gpus) {
    const auto found = gpus.find(file.filename());
    return found == gpus.end() ? -1 : found->second;
}

}  // namespace

std::vector<int> gpus_of_sources(const HostsPlan& plan, const GpuPlaces& places) {
    const Catalogue& catalogue = plan.hold.job.opened.source.checkpoint.catalogue;
    const auto by_file = gpus_by_file(places.sources);
    std::vector<int> gpus;
    for (const FileEntry& file : catalogue.files) gpus.push_back(file.coding ? -1 : gpu_of(file.path, by_file));
    return gpus;
}

std::vector<int> gpus_of_targets(const HostsPlan& plan, const GpuPlaces& places) {
    const auto by_file = gpus_by_file(places.targets);
    std::vector<int> gpus;
    for (const FileEntry& file : plan.hold.job.conversion.draft.files) gpus.push_back(gpu_of(file.path, by_file));
    return gpus;
}

namespace {

/// The bytes that each host gets by each kind of link.
std::vector<LinkBytes> bytes_by_link(const HostsPlan& plan, std::span<const GpuPlaces> places) {
    const formats::Conversion& conversion = plan.hold.job.conversion;
    const Side source = conversion.source_side(), target = conversion.target_side();
    std::vector<LinkBytes> bytes(plan.ranks.size());
    const auto add = [&](const Move& move, const Endpoint& from) {
        const Endpoint& to = plan.target_files[target.pieces[move.target].file];
        LinkClass kind = link_between(from, to, places[static_cast<std::size_t>(to.host)].links).kind;
        if (kind < LinkClass::host_memory && !can_copy(move, source, target)) kind = LinkClass::host_memory;
        // Elements are cast where they arrive.
        const Tensor& tensor = kind > LinkClass::host_memory ? source.tensors[source.pieces[move.source].tensor]
                                                             : target.tensors[target.pieces[move.target].tensor];
        bytes[static_cast<std::size_t>(to.host)][kind] +=
            static_cast<std::uint64_t>(volume(move.box) * itemsize(tensor.dtype));
    };
    for (const Move& move : plan.moves)
        if (!plan.is_carried(move))
            add(move, plan.source_endpoint(plan.host_of(move.target), source.pieces[move.source].file));
    for (std::size_t k = 0; k < plan.carried.size(); ++k) add(plan.carried[k], plan.senders[k]);
    return bytes;
}

}  // namespace

void place_on_gpus(HostsPlan& plan, std::span<const GpuPlaces> places, const HostRates& rates) {
    for (std::size_t host = 0; host < places.size(); ++host) {
        plan.source_gpus[host] = gpus_of_sources(plan, places[host]);
        GpuPlaces sending = places[host];
        for (const int rank : sending.cannot_send) sending.sources.erase(rank);
        plan.sender_gpus[host] = gpus_of_sources(plan, sending);
        const std::vector<int> targets = gpus_of_targets(plan, places[host]);
        for (std::size_t k = 0; k < targets.size(); ++k)
            if (plan.target_files[k].host == static_cast<int>(host)) plan.target_files[k].gpu = targets[k];
    }
    const auto of_endpoints = [&](const Endpoint& from, const Endpoint& to) {
        const auto source = static_cast<std::size_t>(from.host), target = static_cast<std::size_t>(to.host);
        MemoryLink link = link_between(from, to, places[target].links);
        if (source != target && !rates.link_ranks.empty()) link.rank = rates.link_ranks[source][target];
        return distance(link);
    };
    set_moves(plan, of_endpoints, rates.nics);
    plan.links = bytes_by_link(plan, places);
    plan.rounds = plan_rounds(plan.rounds_job(), std::ranges::min_element(places, {}, &GpuPlaces::staging)->staging);
}

}  // namespace tpx::cli
