// SPDX-License-Identifier: Apache-2.0
#include "cmd/hold/gpu_fill.hpp"

#include "cmd/hold/draft_owners.hpp"
#include "lib/core/error.hpp"
#include "lib/core/memory_file.hpp"
#include "lib/exec/device/move_copies.hpp"

#include <algorithm>
#include <set>

namespace tpx::cli {

GpuFill::GpuFill(const HostsPlan& plan, const HostShare& share, const HostGpus& gpus, int host)
    : plan_{plan}, share_{share}, gpus_{gpus}, host_{host} {
    const GpuPlaces places = gpus.places();
    for (std::size_t k = 0; k < gpus.handles().size(); ++k) {
        const int rank = gpus.ranks()[k], gpu = gpus.place().gpus[k];
        const auto& files = share.draft.files;
        const auto file = std::ranges::find(files, std::filesystem::path{segment_name(rank)}, &FileEntry::path);
        targets_.push_back({rank, gpu, places.targets.contains(rank), static_cast<std::size_t>(file - files.begin()),
                            std::make_unique<GpuMemory>(gpu, gpus.handles()[k], gpus.sizes()[k])});
    }
}

/// The memory of a source file, opened by a GPU that copies from it.
const GpuMemory& GpuFill::opened(int gpu, std::uint32_t source_file) {
    const Catalogue& catalogue = plan_.hold.job.opened.source.checkpoint.catalogue;
    const GpuSegment& segment = *gpus_.segment_of(catalogue.files[source_file].path);
    auto& memory = opened_[{gpu, segment.rank}];
    if (!memory) memory = std::make_unique<GpuMemory>(gpu, segment.handle, segment.size);
    return *memory;
}

void GpuFill::add_places(std::span<const std::byte*> sources, std::span<std::byte*> targets) {
    const formats::Conversion& conversion = plan_.hold.job.conversion;
    for (std::size_t k = 0; k < plan_.carried.size(); ++k) {
        const std::uint32_t file = conversion.source_pieces[plan_.carried[k].source].file;
        const Endpoint& from = plan_.senders[k];
        if (from.host == host_ && from.gpu >= 0) sources[file] = opened(from.gpu, file).data();
    }
    for (const Target& target : targets_)
        if (target.is_direct) targets[share_.own[target.segment]] = target.memory->data();
}

/// The tensors of a rank that GPUs fill; with `only_unread`, without those that also get elements from host memory.
std::vector<DirectTensor> GpuFill::tensors(const Target& target, bool only_unread) const {
    std::vector<DirectTensor> found;
    for (const Draft::CrcSlot& slot : share_.draft.crc_slots) {
        const Piece& piece = share_.draft.pieces[slot.piece];
        if (piece.file != target.segment || slot.length != 0) continue;
        if (!std::ranges::binary_search(share_.filled, slot.piece)) continue;
        if (only_unread && std::ranges::binary_search(share_.read, slot.piece)) continue;
        found.push_back({piece.offset, payload_of(share_.draft, piece), slot.offset});
    }
    std::ranges::sort(found, {}, &DirectTensor::offset);
    return found;
}

void GpuFill::begin(std::span<const Fd> files) {
    std::set<int> filled;
    for (Target& target : targets_) {
        if (!target.is_direct) continue;
        filled.insert(target.gpu);
        GpuCopier copier{target.gpu};
        in_context([&] { return fmt::format("rank {}", target.rank); },
                   [&] { upload_around(files[target.segment], tensors(target, true), *target.memory, copier); });
    }
    for (const int gpu : filled) copy_to(gpu);
}

/// Copies the elements that GPUs of this host already hold to the new state on `gpu`.
void GpuFill::copy_to(int gpu) {
    const formats::Conversion& conversion = plan_.hold.job.conversion;
    std::vector<std::byte*> targets(conversion.draft.files.size());
    for (const Target& target : targets_)
        if (target.gpu == gpu) targets[share_.own[target.segment]] = target.memory->data();
    std::vector<const std::byte*> sources(plan_.holders.size());
    std::vector<std::uint32_t> chosen;
    for (const std::uint32_t number : share_.copied) {
        const Move& move = plan_.moves[number];
        if (targets[conversion.target_pieces[move.target].file] == nullptr) continue;
        const std::uint32_t file = conversion.source_pieces[move.source].file;
        sources[file] = opened(gpu, file).data();
        chosen.push_back(number);
    }
    copy_on_gpu(gpu, plan_.moves, chosen, {conversion.source_side(), sources}, {conversion.target_side(), targets});
}

void GpuFill::finish(std::span<const Fd> files) {
    for (Target& target : targets_)
        in_context([&] { return fmt::format("rank {}", target.rank); },
                   [&] {
                       if (target.is_direct)
                           return add_gpu_checksums(files[target.segment], tensors(target, false), *target.memory);
                       GpuCopier{target.gpu}.upload(files[target.segment], *target.memory);
                   });
}

void GpuFill::describe(std::vector<HeldPart>& parts) const {
    for (std::size_t k = 0; k < targets_.size(); ++k) {
        formats::held::Document document = formats::held::parse_document(document_text(parts[k].document));
        free_tensors(parts[k].segment, document);
        const std::string& bus = gpus_.place().gpu_infos[static_cast<std::size_t>(targets_[k].gpu)].bus;
        document.gpu = formats::held::GpuPlace{bus, hexadecimal(gpus_.handles()[k])};
        const std::string text = write_document(document);
        parts[k].document = make_memory_file(fmt::format("tpx-rank-{:05}.json", targets_[k].rank), text.size());
        write_at(parts[k].document, 0, std::as_bytes(std::span{text}), "document");
    }
}

}  // namespace tpx::cli
