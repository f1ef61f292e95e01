// SPDX-License-Identifier: Apache-2.0
#include "cmd/hold/host_gpus.hpp"

#include "cmd/jobs/keeper_client.hpp"
#include "lib/core/error.hpp"
#include "lib/core/units.hpp"

#include <algorithm>
#include <map>
#include <utility>

namespace tpx::cli {
void HostGpus::open_source(const HoldOptions& options, std::string& reason) {
    if (!wants_gpus(options)) return;
    const std::string name = options.checkpoint.substr(held_prefix.size());
    const std::vector<std::string> names = keeper_names();
    if (std::ranges::find(names, name) == names.end()) return;
    try {
        source_ = open_gpu_source(options.checkpoint, reason);
    } catch (const Error&) {  // the keeper was killed; whoever reads its state reports that
    }
}

void HostGpus::choose(const HoldOptions& options, const std::vector<int>& ranks, const std::vector<FileEntry>& files) {
    ranks_ = ranks;
    transport_ = options.transport;
    if (!ranks.empty()) place_ = choose_place(options, ranks, files);
    for (const int rank : ranks) sizes_.push_back(segment_size(files, rank));
    gpu_infos_ = place_.gpu_infos;
    if (gpu_infos_.empty() && source_ != nullptr) gpu_infos_ = gpus_of_host();
    std::map<int, std::uint64_t> old;
    for (const int gpu : place_.gpus) old[gpu] = 0;
    if (source_ != nullptr)
        for (const GpuSegment& segment : source_->segments()) old[gpu_of(segment)] += segment.size;
    for (const auto& [gpu, bytes] : old) {
        GpuNeed need{gpu, bytes, 0, 0, gpu_infos_.at(static_cast<std::size_t>(gpu)).free, false};
        for (std::size_t k = 0; k < place_.gpus.size(); ++k)  // none with --device auto and too little memory
            if (place_.gpus[k] == gpu) need.fresh += sizes_[k];
        need.plan_lists();
        needs_.push_back(need);
    }
}

void HostGpus::check_room_for_sending(int gpu) const {
    const auto need = std::ranges::find(needs_, gpu, &GpuNeed::gpu);
    if (need == needs_.end() || need->is_direct) return;
    throw failure(
        "--transport nccl: GPU {}: sending needs {} for lists of copies beside {} of new state, but only {} are free; "
        "free GPU memory, or use --transport auto",
        gpu, format_size(memory_of_lists), format_size(need->fresh), format_size(need->free));
}

std::string HostGpus::indirect_text() const {
    std::string text;
    for (const GpuNeed& need : needs_) {
        if (need.is_direct) continue;
        if (!text.empty()) text += "; ";
        text += fmt::format("GPU {} has no room for {} of lists of copies beside {} of new state, so ", need.gpu,
                            format_size(memory_of_lists), format_size(need.fresh));
        text += need.fresh > 0 ? "its tensors are copied through host memory"
                               : "other hosts get its tensors through host memory";
    }
    return text;
}

const GpuSegment* HostGpus::segment_of(const std::filesystem::path& file) const {
    if (source_ == nullptr) return nullptr;
    const auto segments = source_->segments();
    const auto found = std::ranges::find_if(
        segments, [&](const GpuSegment& segment) { return segment_name(segment.rank) == file.filename(); });
    return found == segments.end() ? nullptr : &*found;
}

void HostGpus::allocate(WaitingKeeper& keeper) {
    if (place_.gpus.empty()) return;
    try {
        handles_ = keeper.allocate(place_, ranks_, sizes_);
    } catch (const Error& error) {
        if (!place_.is_auto) throw;
        place_ = {.gpus = {}, .gpu_infos = {}, .is_auto = true, .reason = error.what()};
        for (GpuNeed& need : needs_) {
            need.fresh = 0;
            need.plan_lists();
        }
        std::erase_if(needs_, [](const GpuNeed& need) { return need.old == 0; });
    }
}

int HostGpus::gpu_of(const GpuSegment& segment) const {
    return gpu_infos_.empty() ? gpu_with_address(segment.bus) : gpu_at(segment.bus, gpu_infos_);
}

bool HostGpus::is_direct(int gpu) const {
    return std::ranges::any_of(needs_, [&](const GpuNeed& need) { return need.gpu == gpu && need.is_direct; });
}

GpuPlaces HostGpus::places() const {
    GpuPlaces places{.sources = {}, .targets = {}, .links = place_.links};
    if (source_ != nullptr)
        for (const GpuSegment& segment : source_->segments()) {
            const int gpu = places.sources[segment.rank] = gpu_of(segment);
            if (transport_ != "nccl" && !is_direct(gpu)) places.cannot_send.insert(segment.rank);
        }
    for (std::size_t k = 0; k < place_.gpus.size(); ++k)
        if (is_direct(place_.gpus[k])) places.targets[ranks_[k]] = place_.gpus[k];
    // With --transport mpi, messages are in host memory, so that free memory of GPUs does not matter.
    for (const GpuNeed& need : needs_)
        if (need.is_direct && transport_ != "mpi")
            places.staging = std::min(places.staging, (need.free - need.fresh - memory_of_lists) / 2);
    places.staging = std::max(places.staging, least_round_staging);
    return places;
}

}  // namespace tpx::cli
