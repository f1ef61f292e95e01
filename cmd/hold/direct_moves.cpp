// SPDX-License-Identifier: Apache-2.0
#include "cmd/hold/direct_moves.hpp"

#include "cmd/hold/draft_owners.hpp"
#include "formats/source.hpp"
#include "lib/core/error.hpp"
#include "lib/exec/device/move_copies.hpp"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <memory>
#include <set>
#include <tuple>
#include <utility>

namespace tpx::cli {
namespace {

std::vector<int> segments_of_files(const Catalogue& catalogue, std::span<const GpuSegment> sources) {
    std::vector<int> found;
    for (const FileEntry& file : catalogue.files) {
        const auto segment = std::ranges::find(sources, file.path.string(), &GpuSegment::file);
        const bool is_on_gpu = segment != sources.end() && !file.coding;
        found.push_back(is_on_gpu ? static_cast<int>(segment - sources.begin()) : -1);
    }
    return found;
}

/// The GPUs of segments. Those that this process does not see get numbers after those of `gpu_infos`: link_between()
/// takes them for peers.
std::vector<int> gpus_of_segments(std::span<const GpuSegment> sources, std::span<const GpuInfo> gpu_infos) {
    std::vector<int> gpus;
    for (const GpuSegment& source : sources) {
        const auto found = std::ranges::find(gpu_infos, source.bus, &GpuInfo::bus);
        gpus.push_back(static_cast<int>(found - gpu_infos.begin()));
    }
    return gpus;
}

/// The first element of a move, in row-major order, for which `overflows` holds. Precondition: it holds for the move.
template <class Predicate>
Tuple<Index> first_overflow(Move move, Predicate&& overflows) {
    for (int axis = 0; axis < move.box.size();) {
        const Interval whole = move.box[axis];
        if (whole.size() == 1) {
            ++axis;
            continue;
        }
        const Index middle = whole.begin + whole.size() / 2;
        move.box[axis] = {whole.begin, middle};
        if (!overflows(move)) move.box[axis] = {middle, whole.end};
    }
    Tuple<Index> index;
    for (int axis = 0; axis < move.box.size(); ++axis) index.push_back(move.box[axis].begin);
    return index;
}

}  // namespace

void copy_on_gpu(int gpu, const Moves& moves, std::span<const std::uint32_t> chosen,
                 const PlacedSide<const std::byte>& source, const PlacedSide<std::byte>& target) {
    const PinnedBuffer flag{gpu, sizeof(std::uint32_t)};
    auto* const overflow = reinterpret_cast<std::uint32_t*>(flag.data());
    *overflow = 0;
    GpuCopier copier{gpu};
    const auto copy = [&](const Moves& some, std::span<const std::uint32_t> numbers) {
        *overflow = 0;
        copy_moves(some, numbers, source, target, overflow, copies_at_once,
                   [&](const CopyBatch& batch) { copier.run(batch); });
        return *overflow != 0;
    };
    const auto overflows = [&](const Move& move) {
        constexpr std::uint32_t first = 0;
        return copy({move}, {&first, 1});
    };
    if (!copy(moves, chosen)) return;
    for (const std::uint32_t one : chosen) {  // one at a time, to find the tensor
        const Move& move = moves[one];
        if (!overflows(move)) continue;
        const Tensor &from = source.side.tensors[source.side.pieces[move.source].tensor],
                     &to = target.side.tensors[target.side.pieces[move.target].tensor];
        throw failure(
            "GPU {}: tensor '{}': the value of type {} at {} does not fit {}; use --dtype with a larger range, or omit "
            "--dtype",
            gpu, from.name, name(from.dtype), to_string(first_overflow(move, overflows)), name(to.dtype));
    }
}

DirectMoves::DirectMoves(const HoldJob& hold, const HoldPlace& place, const GpuSource& source)
    : conversion_{hold.job.conversion},
      source_{source},
      sources_{source.segments()},
      ranks_{*hold.job.target.held},
      gpus_{place.gpus},
      between_gpus_{place.links},
      source_gpus_{gpus_of_segments(sources_, place.gpu_infos)},
      source_of_file_{segments_of_files(hold.job.opened.source.checkpoint.catalogue, sources_)},
      owner_{owners(conversion_.draft, conversion_.target_pieces)} {
    find_places();
    moves_ = make_moves(conversion_.source_side(), conversion_.target_side(),
                        [&](std::uint32_t from, std::uint32_t to) { return distance(link(from, to)); });
    choose(place);
    split();
}

void DirectMoves::find_places() {
    const Draft& draft = conversion_.draft;
    rank_of_file_.assign(draft.files.size(), -1);
    for (std::size_t k = 0; k < ranks_.size(); ++k) {
        const std::filesystem::path name{segment_name(ranks_[k])};
        const auto file = std::ranges::find(draft.files, name, &FileEntry::path) - draft.files.begin();
        rank_of_file_.at(static_cast<std::size_t>(file)) = static_cast<int>(k);
        segment_bytes_[ranks_[k]] = draft.files[static_cast<std::size_t>(file)].size;
    }
}

/// From a source piece to a target piece.
MemoryLink DirectMoves::link(std::uint32_t source, std::uint32_t target) const {
    const std::uint32_t file = conversion_.source_pieces[source].file;
    const int segment = file < source_of_file_.size() ? source_of_file_[file] : -1;
    const int rank = rank_of_file_[conversion_.target_pieces[target].file];
    const Endpoint from{0, segment < 0 ? -1 : source_gpus_[static_cast<std::size_t>(segment)]},
        to{0, rank < 0 ? -1 : gpus_[static_cast<std::size_t>(rank)]};
    return link_between(from, to, between_gpus_);
}

/// Decides which of the draft's pieces kernels fill.
void DirectMoves::choose(const HoldPlace& place) {
    for (const int gpu : std::set<int>(gpus_.begin(), gpus_.end())) {
        GpuNeed need{gpu, 0, 0, 0, place.gpu_infos[static_cast<std::size_t>(gpu)].free, false};
        for (const GpuSegment& source : sources_)
            if (source.bus == place.gpu_infos[static_cast<std::size_t>(gpu)].bus) need.old += source.size;
        for (std::size_t k = 0; k < ranks_.size(); ++k)
            if (gpus_[k] == gpu) need.fresh += segment_bytes_.at(ranks_[k]);
        need.plan_lists();
        needs_.push_back(need);
    }
    const Draft& draft = conversion_.draft;
    const auto has_room = [&](const Piece& piece) {
        const int rank = rank_of_file_[piece.file];
        return rank >= 0 && std::ranges::find(needs_, gpus_[static_cast<std::size_t>(rank)], &GpuNeed::gpu)->is_direct;
    };
    std::vector<bool> has_moves(draft.pieces.size());
    std::vector<bool> is_refused(draft.pieces.size());
    for (const Move& move : moves_) {
        const std::uint32_t owner = owner_[move.target];
        const bool is_reached = link(move.source, move.target).kind < LinkClass::host_memory;
        has_moves[owner] = true;
        if (!is_reached || !can_copy(move, conversion_.source_side(), conversion_.target_side()))
            is_refused[owner] = true;
    }
    for (std::size_t k = 0; k < draft.pieces.size(); ++k)
        direct_.push_back(has_moves[k] && !is_refused[k] && has_room(draft.pieces[k]));
}

std::uint64_t DirectMoves::written_bytes(const Move& move) const {
    const std::uint32_t tensor = conversion_.target_pieces[move.target].tensor;
    return static_cast<std::uint64_t>(volume(move.box) * itemsize(conversion_.target_tensors[tensor].dtype));
}

/// Makes the lists of both ways.
void DirectMoves::split() {
    const Draft& draft = conversion_.draft;
    std::vector<std::uint32_t> number_of_host(conversion_.target_pieces.size());
    for (std::size_t k = 0; k < conversion_.target_pieces.size(); ++k) {
        if (direct_[owner_[k]]) continue;
        number_of_host[k] = static_cast<std::uint32_t>(host_pieces_.size());
        host_pieces_.push_back(conversion_.target_pieces[k]);
    }
    for (std::uint32_t k = 0; k < moves_.size(); ++k) {
        const Move& move = moves_[k];
        if (direct_[owner_[move.target]]) {
            const int rank = rank_of_file_[conversion_.target_pieces[move.target].file];
            direct_moves_[gpus_[static_cast<std::size_t>(rank)]].push_back(k);
            links_[link(move.source, move.target).kind] += written_bytes(move);
        } else {
            host_moves_.push_back({move.source, number_of_host[move.target], move.box});
        }
    }
    for (std::size_t k = 0; k < draft.pieces.size(); ++k)
        (direct_[k] ? gpu_bytes_ : host_bytes_) += payload_of(draft, draft.pieces[k]);
    links_[LinkClass::host_memory] = host_bytes_;
    for (const Draft::CrcSlot& slot : draft.crc_slots) {
        if (slot.length != 0 || !direct_[slot.piece]) continue;
        const Piece& piece = draft.pieces[slot.piece];
        tensors_[ranks_[static_cast<std::size_t>(rank_of_file_[piece.file])]].push_back(
            {piece.offset, payload_of(draft, piece), slot.offset});
    }
    for (auto& [rank, tensors] : tensors_) std::ranges::sort(tensors, {}, &DirectTensor::offset);
}

std::span<const DirectTensor> DirectMoves::tensors_of(int rank) const {
    const auto found = tensors_.find(rank);
    return found == tensors_.end() ? std::span<const DirectTensor>{} : std::span{found->second};
}

void DirectMoves::run(const std::vector<GpuMemory*>& memory) const {
    std::vector<std::byte*> targets(rank_of_file_.size());
    for (std::size_t file = 0; file < targets.size(); ++file)
        if (rank_of_file_[file] >= 0) targets[file] = memory[static_cast<std::size_t>(rank_of_file_[file])]->data();
    for (const auto& [gpu, moves] : direct_moves_) copy_to(gpu, targets);
    source_.check_still_held();
}

/// The GPU of the target opens the source's memory and copies.
void DirectMoves::copy_to(int gpu, std::span<std::byte* const> targets) const {
    const std::vector<std::uint32_t>& chosen = direct_moves_.at(gpu);
    std::map<int, std::unique_ptr<GpuMemory>> opened;
    std::vector<const std::byte*> sources(source_of_file_.size());
    for (const std::uint32_t number : chosen) {
        const std::uint32_t file = conversion_.source_pieces[moves_[number].source].file;
        const GpuSegment& segment = sources_[static_cast<std::size_t>(source_of_file_[file])];
        auto& memory = opened[source_of_file_[file]];
        if (!memory) memory = std::make_unique<GpuMemory>(gpu, segment.handle, segment.size);
        sources[file] = memory->data();
    }
    copy_on_gpu(gpu, moves_, chosen, {conversion_.source_side(), sources}, {conversion_.target_side(), targets});
}

}  // namespace tpx::cli
