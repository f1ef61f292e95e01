// SPDX-License-Identifier: Apache-2.0
#include "cmd/hold/place_on_gpus.hpp"

#include "lib/exec/device/move_copies.hpp"

#include <filesystem>
#include <map>
#include <sstream>

namespace tpx::cli {

std::string to_text(const GpuPlaces& places) {
    std::string text;
    for (const auto& [rank, gpu] : places.sources) text += fmt::format("s {} {} ", rank, gpu);
    for (const auto& [rank, gpu] : places.targets) text += fmt::format("t {} {} ", rank, gpu);
    return text + "l " + to_text(places.links);
}

GpuPlaces parse_gpu_places(const std::string& text) {
    GpuPlaces places;
    std::istringstream words{text};
    int rank = 0, gpu = 0;
    char side = 0;
    while (words >> side && side != 'l' && words >> rank >> gpu)
        (side == 's' ? places.sources : places.targets)[rank] = gpu;
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

/// The links by which pieces of the source reach pieces of the target, once files have GPUs.
class HostsLinks {
public:
    HostsLinks(const HostsPlan& plan, std::span<const GpuPlaces> places) : plan_{plan}, places_{places} {
        for (const GpuPlaces& of_host : places) gpus_.push_back(gpus_of_sources(plan, of_host));
    }

    MemoryLink link(std::uint32_t source, std::uint32_t target) const {
        const formats::Conversion& conversion = plan_.hold.job.conversion;
        const std::uint32_t file = conversion.source_pieces[source].file;
        const Endpoint& to = plan_.target_files[conversion.target_pieces[target].file];
        const auto host = static_cast<std::size_t>(to.host);
        const bool is_here = plan_.has_source(to.host, {source, target, {}});
        const Endpoint from = is_here ? Endpoint{to.host, gpus_[host][file]} : plan_.source_files[file];
        return link_between(from, to, places_[host].links);
    }

private:
    const HostsPlan& plan_;
    std::span<const GpuPlaces> places_;
    std::vector<std::vector<int>> gpus_;  // by host and source file
};

/// The bytes that each host gets by each kind of link.
std::vector<LinkBytes> bytes_by_link(const HostsPlan& plan, const HostsLinks& links) {
    const formats::Conversion& conversion = plan.hold.job.conversion;
    const Side source = conversion.source_side(), target = conversion.target_side();
    std::vector<LinkBytes> bytes(plan.ranks.size());
    for (const Move& move : plan.moves) {
        LinkClass kind = links.link(move.source, move.target).kind;
        if (kind < LinkClass::host_memory && !can_copy(move, source, target)) kind = LinkClass::host_memory;
        // Elements are cast where they arrive.
        const Tensor& tensor = kind > LinkClass::host_memory ? source.tensors[source.pieces[move.source].tensor]
                                                             : target.tensors[target.pieces[move.target].tensor];
        bytes[static_cast<std::size_t>(plan.host_of(move.target))][kind] +=
            static_cast<std::uint64_t>(volume(move.box) * itemsize(tensor.dtype));
    }
    return bytes;
}

}  // namespace

void place_on_gpus(HostsPlan& plan, std::span<const GpuPlaces> places) {
    for (std::size_t host = 0; host < places.size(); ++host) {
        const std::vector<int> sources = gpus_of_sources(plan, places[host]),
                               targets = gpus_of_targets(plan, places[host]);
        for (std::size_t k = 0; k < plan.source_files.size(); ++k)
            if (plan.source_files[k].host == static_cast<int>(host)) plan.source_files[k].gpu = sources[k];
        for (std::size_t k = 0; k < targets.size(); ++k)
            if (plan.target_files[k].host == static_cast<int>(host)) plan.target_files[k].gpu = targets[k];
    }
    const HostsLinks links{plan, places};
    set_moves(plan, [&](std::uint32_t source, std::uint32_t target) { return distance(links.link(source, target)); });
    plan.links = bytes_by_link(plan, links);
    plan.rounds = plan_rounds(plan.rounds_job(), round_staging);
}

}  // namespace tpx::cli
