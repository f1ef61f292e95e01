// SPDX-License-Identifier: Apache-2.0
#include "lib/change/piece_parcels.hpp"

#include "lib/change/box_set.hpp"
#include "lib/change/holdings.hpp"
#include "lib/core/error.hpp"

#include <algorithm>
#include <numeric>
#include <tuple>
#include <utility>

namespace tpx {
namespace {

void check_holders(const Side& side, int ranks) {
    check_pieces(side);
    for (const Piece& piece : side.pieces) {
        if (piece.rank < 0 || piece.rank >= ranks)
            throw failure("tensor '{}': piece {} is of rank {}, there are {} ranks", side.tensors[piece.tensor].name,
                          to_string(piece.box), piece.rank, ranks);
    }
}

void check_tensors(const Side& source, const Side& target) {
    if (source.tensors.size() != target.tensors.size())
        throw failure("the source has {} tensors, the target {}", source.tensors.size(), target.tensors.size());
    for (std::size_t i = 0; i < source.tensors.size(); ++i) {
        const Tensor& a = source.tensors[i];
        const Tensor& b = target.tensors[i];
        if (a.name != b.name || a.shape != b.shape)
            throw failure("tensor {} is '{}' {} in the source, '{}' {} in the target", i, a.name, to_string(a.shape),
                          b.name, to_string(b.shape));
        if (checked_volume(a.shape) < 0 || itemsize(a.dtype) == 0)
            throw failure("tensor '{}': elements of {}, shape {}: bytes cannot be counted", a.name, name(a.dtype),
                          to_string(a.shape));
    }
}

/// Positions of the pieces that are not empty, by tensor, box, rank.
std::vector<std::uint32_t> in_order(std::span<const Piece> pieces) {
    std::vector<std::uint32_t> order;
    order.reserve(pieces.size());
    for (std::uint32_t i = 0; i < pieces.size(); ++i) {
        if (!empty(pieces[i].box)) order.push_back(i);
    }
    const auto less = [&](std::uint32_t i, std::uint32_t j) {
        const Piece& a = pieces[i];
        const Piece& b = pieces[j];
        return std::tie(a.tensor, a.box, a.rank) < std::tie(b.tensor, b.box, b.rank);
    };
    if (!std::ranges::is_sorted(order, less)) std::ranges::sort(order, less);
    return order;
}

class PieceParcels {
public:
    PieceParcels(const Side& source, const Side& target, std::span<const std::uint32_t> roles, Parcels result,
                 std::vector<PieceCell>* cells)
        : source_{source}, target_{target}, roles_{roles}, result_{std::move(result)}, cells_{cells} {}

    /// Also fills `cells`, unless it is null.
    Parcels run();

private:
    using PieceNumbers = std::span<const std::uint32_t>;

    static PieceNumbers take(PieceNumbers& rest, std::span<const Piece> pieces, std::uint32_t tensor);
    void tensor(std::uint32_t number, Holdings& holders, Holdings& needers);
    void add(std::uint32_t tensor, std::uint32_t holders, std::uint32_t needers, bool recut, const Box& box);
    void add_up();

    const Side& source_;
    const Side& target_;
    std::span<const std::uint32_t> roles_;
    Parcels result_;
    std::vector<PieceCell>* cells_;  // one for each parcel until add_up()
};

/// Removes the leading ids of pieces of `tensor` and of earlier tensors from `rest`, and returns those of `tensor`.
PieceParcels::PieceNumbers PieceParcels::take(PieceNumbers& rest, std::span<const Piece> pieces, std::uint32_t tensor) {
    std::size_t begin = 0;
    while (begin < rest.size() && pieces[rest[begin]].tensor < tensor) ++begin;
    std::size_t end = begin;
    while (end < rest.size() && pieces[rest[end]].tensor == tensor) ++end;
    const PieceNumbers taken = rest.subspan(begin, end - begin);
    rest = rest.subspan(end);
    return taken;
}

Parcels PieceParcels::run() {
    const std::vector<std::uint32_t> sources = in_order(source_.pieces);
    const std::vector<std::uint32_t> targets = in_order(target_.pieces);
    PieceNumbers more_sources = sources;
    for (PieceNumbers rest = targets; !rest.empty();) {
        const std::uint32_t number = target_.pieces[rest.front()].tensor;
        Holdings holders{source_.pieces, take(more_sources, source_.pieces, number)};
        Holdings needers{target_.pieces, take(rest, target_.pieces, number)};
        tensor(number, holders, needers);
    }
    add_up();
    return std::move(result_);
}

void PieceParcels::tensor(std::uint32_t number, Holdings& holders, Holdings& needers) {
    std::vector<std::uint32_t> found;
    std::vector<Box> missing, scratch;
    const std::vector<Box>& needed = needers.atoms().boxes();
    for (std::uint32_t atom = 0; atom < needed.size(); ++atom) {
        const std::uint32_t set = needers.holders(atom, result_.needers);
        missing.assign(1, needed[atom]);
        holders.atoms().overlapping(needed[atom], found);
        for (std::uint32_t held : found) {
            const Box& part = holders.atoms().boxes()[held];
            const bool recut = !needers.cut_alike(atom, holders, held);
            add(number, holders.holders(held, result_.holders), set, recut, intersect(needed[atom], part));
            carve(missing, part, scratch);
        }
        for (const Box& box : missing) add(number, result_.holders.add({}), set, true, box);
    }
}

void PieceParcels::add(std::uint32_t tensor, std::uint32_t holders, std::uint32_t needers, bool recut, const Box& box) {
    const auto element = static_cast<std::uint32_t>(itemsize(source_.tensors[tensor].dtype));
    result_.parcels.push_back({holders, needers, roles_.empty() ? 0 : roles_[tensor], tensor, recut,
                               static_cast<std::uint64_t>(volume(box)) * element, element});
    if (cells_) cells_->push_back({.tensor = tensor, .box = box});
}

void PieceParcels::add_up() {
    const auto key = [](const Parcel& p) { return std::tuple{p.role, p.holders, p.needers, p.recut, p.element}; };
    const std::vector<Parcel> parts = std::exchange(result_.parcels, {});
    std::vector<std::uint32_t> order(parts.size());
    std::iota(order.begin(), order.end(), 0u);
    std::ranges::sort(order, {}, [&](std::uint32_t i) { return std::tuple{key(parts[i]), parts[i].tensor, i}; });
    std::vector<PieceCell> sorted;
    for (std::uint32_t i : order) {
        std::vector<Parcel>& parcels = result_.parcels;
        if (parcels.empty() || key(parcels.back()) != key(parts[i])) {
            parcels.push_back(parts[i]);
            parcels.back().bytes = 0;
        }
        if (cells_) {
            const auto parcel = static_cast<std::uint32_t>(parcels.size() - 1);
            sorted.push_back({parcel, parts[i].tensor, (*cells_)[i].box, parcels.back().bytes});
        }
        parcels.back().bytes += parts[i].bytes;
    }
    if (cells_) *cells_ = std::move(sorted);
}

Parcels collect(const Side& source, const Side& target, std::span<const std::uint32_t> roles_of_tensors,
                Parcels parcels, std::vector<PieceCell>* cells) {
    check_tensors(source, target);
    check_holders(source, parcels.old_ranks);
    check_holders(target, parcels.new_ranks);
    if (!roles_of_tensors.empty() && roles_of_tensors.size() != source.tensors.size())
        throw failure("roles of {} tensors, there are {}", roles_of_tensors.size(), source.tensors.size());
    for (std::uint32_t role : roles_of_tensors) {
        if (role >= parcels.roles.size()) throw failure("role {} of {}", role, parcels.roles.size());
    }
    for (const Tensor& tensor : source.tensors) parcels.tensors.push_back(tensor.name);
    return PieceParcels{source, target, roles_of_tensors, std::move(parcels), cells}.run();
}

}  // namespace

Parcels parcels_of(const Side& source, const Side& target, std::span<const std::uint32_t> roles_of_tensors,
                   std::vector<Role> roles, int old_ranks, int new_ranks) {
    return collect(source, target, roles_of_tensors,
                   {.old_ranks = old_ranks, .new_ranks = new_ranks, .roles = std::move(roles)}, nullptr);
}

std::vector<PieceCell> cells_of(const Side& source, const Side& target, std::span<const std::uint32_t> roles_of_tensors,
                                std::vector<Role> roles, int old_ranks, int new_ranks) {
    std::vector<PieceCell> cells;
    collect(source, target, roles_of_tensors,
            {.old_ranks = old_ranks, .new_ranks = new_ranks, .roles = std::move(roles)}, &cells);
    return cells;
}

}  // namespace tpx
