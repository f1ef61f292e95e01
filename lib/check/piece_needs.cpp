// SPDX-License-Identifier: Apache-2.0
#include "lib/check/piece_needs.hpp"

#include "lib/core/error.hpp"

#include <algorithm>
#include <map>
#include <set>

namespace tpx {
namespace {

/// The ends of `within`, and the ends of `boxes` on `axis` inside it; ascending.
std::vector<Index> ends(Interval within, int axis, std::span<const Box* const> boxes) {
    std::set<Index> cuts{within.begin, within.end};
    for (const Box* box : boxes) {
        for (Index at : {(*box)[axis].begin, (*box)[axis].end}) {
            if (within.begin < at && at < within.end) cuts.insert(at);
        }
    }
    return {cuts.begin(), cuts.end()};
}

/// Calls `visit` for each box between neighboring ends on all axes.
template <class Visit>
void for_each_cell(std::span<const std::vector<Index>> axes, const Box& outer, const Visit& visit) {
    if (axes.empty()) return visit(outer);
    for (std::size_t i = 0; i + 1 < axes[0].size(); ++i) {
        Box cell = outer;
        cell.push_back({axes[0][i], axes[0][i + 1]});
        for_each_cell(axes.subspan(1), cell, visit);
    }
}

}  // namespace

PieceNeeds::PieceNeeds(const PlanTables& tables, ParcelChecker& checker) : held_{*tables.held}, checker_{checker} {
    check_pieces(held_.before);
    check_pieces(held_.after);
    before_ = by_tensor(held_.before);
    after_ = by_tensor(held_.after);
    if (!held_.cells.box.empty()) cells_.resize(held_.tensors.size());
    for (std::size_t i = 0; i < held_.cells.box.size(); ++i)
        cells_[held_.cells.tensor[i]].push_back({held_.cells.box[i], held_.cells.parcel[i]});
    const auto& names = tables.hosts->tensors;
    const auto same = [](const Tensor& tensor, const std::string& name) { return tensor.name == name; };
    if (!std::ranges::equal(held_.tensors, names, same))
        throw failure("parcels/names: differ from the names of the tensors");
    for (std::size_t t = 0; t < held_.tensors.size(); ++t) {
        const auto& roles = tables.hosts->roles.name;
        const auto role = std::ranges::find(roles, held_.roles[t]);
        if (role == roles.end()) throw failure("tensor '{}': no role '{}'", held_.tensors[t].name, held_.roles[t]);
        roles_.push_back(static_cast<std::uint32_t>(role - roles.begin()));
    }
    pieces_.resize(tables.hosts->new_devices.size());
    for (std::uint32_t i = 0; i < held_.after.size(); ++i) pieces_[held_.after[i].rank].push_back(i);
    for (auto& list : pieces_)
        std::ranges::stable_sort(list, {}, [&](std::uint32_t piece) { return held_.after[piece].tensor; });
}

void PieceNeeds::check_pieces(const std::vector<Piece>& pieces) const {
    for (const Piece& piece : pieces) {
        if (piece.tensor >= held_.tensors.size())
            throw failure("a piece of tensor {} of {}", piece.tensor, held_.tensors.size());
        const Tensor& tensor = held_.tensors[piece.tensor];
        bool fits = piece.box.size() == tensor.shape.size() && checked_volume(tensor.shape) >= 0;
        for (int axis = 0; fits && axis < piece.box.size(); ++axis) {
            const Interval side = piece.box[axis];
            fits = 0 <= side.begin && side.begin <= side.end && side.end <= tensor.shape[axis];
        }
        if (!fits) throw failure("tensor '{}': a piece of rank {} is not within the tensor", tensor.name, piece.rank);
    }
}

std::vector<PieceNeeds::Boxes> PieceNeeds::by_tensor(const std::vector<Piece>& pieces) const {
    std::vector<std::map<Box, std::vector<std::int32_t>>> found(held_.tensors.size());
    for (const Piece& piece : pieces) {
        if (!empty(piece.box)) found[piece.tensor][piece.box].push_back(piece.rank);
    }
    std::vector<Boxes> boxes(found.size());
    for (std::size_t tensor = 0; tensor < found.size(); ++tensor) {
        for (auto& [box, ranks] : found[tensor]) boxes[tensor].push_back({box, std::move(ranks)});
    }
    return boxes;
}

void PieceNeeds::add(std::int32_t rank) {
    std::vector<Box> own;
    for (auto at = pieces_[rank].begin(); at != pieces_[rank].end();) {
        const std::uint32_t tensor = held_.after[*at].tensor;
        own.clear();
        for (; at != pieces_[rank].end() && held_.after[*at].tensor == tensor; ++at) {
            if (!empty(held_.after[*at].box)) own.push_back(held_.after[*at].box);
        }
        add(tensor, own);
    }
}

void PieceNeeds::add(std::uint32_t tensor, std::span<const Box> own) {
    for (std::size_t i = 0; i < own.size(); ++i) {
        Near near;
        std::vector<const Box*> cuts;
        const auto look = [&](const auto& list, auto& into) {
            for (const auto& one : list) {
                if (empty(intersect(one.box, own[i]))) continue;
                into.push_back(&one);
                cuts.push_back(&one.box);
            }
        };
        look(before_[tensor], near.before);
        look(after_[tensor], near.after);
        if (!cells_.empty()) look(cells_[tensor], near.cells);
        std::vector<std::vector<Index>> axes;
        for (int axis = 0; axis < own[i].size(); ++axis) axes.push_back(ends(own[i][axis], axis, cuts));
        for_each_cell(axes, {}, [&](const Box& cell) {
            // If two boxes of a rank contain a cell, the rank needs it once.
            const auto has = [&](const Box& box) { return contains(box, cell); };
            if (std::ranges::none_of(own.first(i), has)) add_cell(tensor, cell, near);
        });
    }
}

void PieceNeeds::add_cell(std::uint32_t tensor, const Box& cell, const Near& near) {
    const auto owners = [&](std::span<const Same* const> boxes, std::vector<Box>& around) {
        std::vector<std::int32_t> ranks;
        for (const Same* same : boxes) {
            if (!contains(same->box, cell)) continue;
            ranks.insert(ranks.end(), same->ranks.begin(), same->ranks.end());
            around.push_back(same->box);
        }
        std::ranges::sort(ranks);
        ranks.erase(std::ranges::unique(ranks).begin(), ranks.end());
        return ranks;
    };
    std::vector<Box> old_boxes, new_boxes;
    const std::optional<std::uint32_t> holders = checker_.holders().find(owners(near.before, old_boxes));
    const std::optional<std::uint32_t> needers = checker_.needers().find(owners(near.after, new_boxes));
    const Tensor& of = held_.tensors[tensor];
    if (!holders || !needers)
        throw failure("tensor '{}': the file has no set of exactly the ranks that {} {}", of.name,
                      holders ? "need" : "hold", to_string(cell));
    const bool recut = std::ranges::any_of(
        new_boxes, [&](const Box& box) { return std::ranges::find(old_boxes, box) == old_boxes.end(); });
    const std::uint32_t parcel =
        checker_.add(*holders, *needers, roles_[tensor], recut, tensor, static_cast<std::uint64_t>(volume(cell)),
                     static_cast<std::uint32_t>(itemsize(of.dtype)));
    if (!cells_.empty()) compare(tensor, cell, near, parcel);
}

void PieceNeeds::compare(std::uint32_t tensor, const Box& cell, const Near& near, std::uint32_t parcel) const {
    int cells = 0;
    for (const FileCell* own : near.cells) {
        if (!contains(own->box, cell)) continue;
        if (own->parcel != parcel)
            throw failure("cells: {} of tensor '{}' is in parcel {}, not {}", to_string(cell),
                          held_.tensors[tensor].name, parcel, own->parcel);
        ++cells;
    }
    if (cells != 1)
        throw failure("cells: {} of tensor '{}' is in {} cells", to_string(cell), held_.tensors[tensor].name, cells);
}

}  // namespace tpx
