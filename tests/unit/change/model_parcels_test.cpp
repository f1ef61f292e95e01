// SPDX-License-Identifier: Apache-2.0
#include "lib/change/model_parcels.hpp"

#include "lib/core/error.hpp"
#include "tests/unit/change/random_models.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <tuple>

namespace {

using namespace tpx;
using namespace tpx::testing::models;

using Ranks = std::vector<std::int32_t>;
/// Bytes by (holders, needers, role, recut).
using Amounts = std::map<std::tuple<Ranks, Ranks, std::uint32_t, bool>, std::uint64_t>;

int digit_of(const Layout& layout, int rank, std::string_view axis, const std::map<std::string, int>& size) {
    for (std::size_t at = 0; at < layout.order.size(); at += 3) {
        const std::string name = layout.order.substr(at, 2);
        if (name == axis) return rank % size.at(name);
        rank /= size.at(name);
    }
    return -1;
}

/// The holders of a layout, computed for single ranks and elements, the slow way.
struct Slow {
    struct At {
        int part, stage, block, position, dp;
    };

    const ModelState& model;
    const Layout& layout;
    std::vector<int> stages = stages_of_layers(layout, model.layers);
    std::array<std::vector<At>, 2> places = {all_places(false), all_places(true)};  // by rank; of experts

    int etp() const { return layout.etp > 0 ? layout.etp : layout.tp; }
    /// Without ep and etp, experts are on the dense grid.
    bool own_grid(bool experts) const { return experts && (layout.ep > 1 || etp() != layout.tp); }
    int expert_dp() const { return layout.ranks() / layout.pp / etp() / layout.ep; }

    std::array<int, 3> group(int rank, bool experts) const {
        std::map<std::string, int> size{
            {"tp", layout.tp}, {"pp", layout.pp}, {"dp", layout.dp}, {"cp", layout.cp}, {"ep", 1}};
        if (own_grid(experts))
            size = {{"tp", etp()}, {"pp", layout.pp}, {"dp", expert_dp()}, {"cp", 1}, {"ep", layout.ep}};
        return {digit_of(layout, rank, "tp", size), digit_of(layout, rank, "pp", size),
                digit_of(layout, rank, "ep", size)};
    }

    std::vector<At> all_places(bool experts) const {
        if (experts && std::ranges::none_of(model.classes, [](const auto& kind) { return kind.experts > 0; }))
            return {};
        std::map<std::array<int, 3>, int> members;
        std::vector<At> all;
        for (int rank = 0; rank < layout.ranks(); ++rank) {
            const auto mine = group(rank, experts);
            all.push_back({mine[0], mine[1], mine[2], members[mine]++, coordinates(layout, rank).dp});
        }
        return all;
    }

    bool on_stage(const TensorClass& kind, int layer, int stage) const {
        if (layer >= 0) return stage == (layer < model.layers ? stages[layer] : layout.pp - 1);
        if (kind.first && kind.last) return stage == 0 || stage == layout.pp - 1;
        return stage == (kind.last ? layout.pp - 1 : 0);
    }

    /// Whether a rank at `at` has element `x`.
    bool has(const TensorClass& kind, const StateRole& role, const At& at, Index expert, const Tuple<Index>& x) const {
        const bool own = own_grid(kind.experts > 0);
        Shape size = kind.shape;
        Tuple<Index> y = x;
        if (kind.tp_axis >= 0) {
            const int parts = own ? etp() : layout.tp;
            Index& n = size[kind.tp_axis];
            while (kind.pad > 0 && n % (kind.pad * parts) != 0) ++n;
            n /= parts;
            if (y[kind.tp_axis] / n != at.part) return false;
            y[kind.tp_axis] %= n;
        }
        if (kind.of_virtual_nodes) return x[0] / (layout.vn / layout.dp) == at.dp;
        if (x.empty() && kind.experts == 0) return true;
        int shards = 1;
        int shard = 0;
        if (layout.zero == 3 || (layout.zero > 0 && role.role != Role::weight)) {
            shards = own ? expert_dp() : layout.dp * layout.cp;
            shard = at.position;
            if (x.empty()) return true;
        } else if (layout.fsdp > 1) {
            shards = own ? expert_dp() / layout.hsdp() : layout.fsdp;
            shard = (own ? at.position : at.dp) % shards;
            // Experts are one stacked tensor; its axis 0 is split unless a rank has too few experts.
            const Index block = kind.experts / layout.ep;
            const bool inside =
                layout.ep > 1 ? shards > block : layout.fsdp_dim == 1 && !x.empty() && size[0] % shards == 0;
            if (kind.experts > 0 && (!inside || x.empty()))
                return expert % block / ((block + shards - 1) / shards) == shard;
            if (kind.experts > 0) return y[0] / ((size[0] + shards - 1) / shards) == shard;
        }
        if (x.empty()) return true;
        const int axis = layout.fsdp_dim == 1 && size.size() > 1 && size[1] % shards == 0 ? 1 : 0;
        return y[axis] / ((size[axis] + shards - 1) / shards) == shard;
    }
};

struct Owned {
    Ranks ranks;
    Box box;  // box of the piece, the same for all of them
};

/// The owners of each element of one tensor, in row-major order.
std::vector<Owned> owners(const Slow& slow, const TensorClass& kind, const StateRole& role, int layer, Index expert) {
    std::vector<Owned> all(volume(kind.shape));
    for (int rank = 0; rank < slow.layout.ranks(); ++rank) {
        const auto& at = slow.places[kind.experts > 0][rank];
        if (!slow.on_stage(kind, layer, at.stage)) continue;
        if (kind.experts > 0 && expert / (kind.experts / slow.layout.ep) != at.block) continue;
        std::vector<std::size_t> mine;
        Box box(kind.shape.size(), {1000, 0});
        for (std::size_t i = 0; i < all.size(); ++i) {
            Tuple<Index> x(kind.shape.size());
            Index rest = static_cast<Index>(i);
            for (int k = kind.shape.size() - 1; k >= 0; --k) {
                x[k] = rest % kind.shape[k];
                rest /= kind.shape[k];
            }
            if (!slow.has(kind, role, at, expert, x)) continue;
            mine.push_back(i);
            for (int k = 0; k < x.size(); ++k) box[k] = {std::min(box[k].begin, x[k]), std::max(box[k].end, x[k] + 1)};
        }
        for (std::size_t i : mine) {
            all[i].ranks.push_back(rank);
            all[i].box = box;
        }
    }
    return all;
}

struct Expected {
    Amounts amounts;
    std::vector<std::uint64_t> held;  // of the new layout
};

template <class Visit>
void for_each_tensor(const ModelState& model, const Visit& visit) {
    for (std::uint32_t role = 0; role < model.roles.size(); ++role) {
        for (const TensorClass& kind : model.classes) {
            if (kind.of_virtual_nodes != (model.roles[role].role == Role::virtual_node)) continue;
            for (int layer : kind.layers.empty() ? std::vector{-1} : kind.layers) {
                for (Index expert = 0; expert < std::max<Index>(kind.experts, 1); ++expert)
                    visit(kind, role, layer, expert);
            }
        }
    }
}

Expected brute_force(const ModelState& model, const Layout& from, const Layout& to) {
    const Slow old_side{model, from};
    const Slow new_side{model, to};
    Expected expected;
    expected.held.resize(to.ranks());
    for_each_tensor(model, [&](const TensorClass& kind, std::uint32_t role, int layer, Index expert) {
        const auto holders = owners(old_side, kind, model.roles[role], layer, expert);
        const auto needers = owners(new_side, kind, model.roles[role], layer, expert);
        const auto bytes = static_cast<std::uint64_t>(itemsize(model.roles[role].dtype));
        for (std::size_t i = 0; i < holders.size(); ++i) {
            const bool recut = holders[i].box != needers[i].box;
            expected.amounts[{holders[i].ranks, needers[i].ranks, role, recut}] += bytes;
            for (std::int32_t rank : needers[i].ranks) expected.held[rank] += bytes;
        }
    });
    return expected;
}

Ranks list(const RankSets& sets, std::uint32_t number) { return {sets[number].begin(), sets[number].end()}; }

Amounts amounts_of(const Parcels& parcels) {
    Amounts amounts;
    for (const Parcel& parcel : parcels.parcels) {
        const auto [at, fresh] = amounts.try_emplace(
            {list(parcels.holders, parcel.holders), list(parcels.needers, parcel.needers), parcel.role, parcel.recut},
            parcel.bytes);
        CHECK(fresh);
    }
    return amounts;
}

/// Checks that the cells cover the parcels, and each element of each tensor, exactly once.
void check_cells(const ModelState& model, const Layout& from, const Layout& to, const Parcels& parcels) {
    std::vector<std::uint64_t> filled(parcels.parcels.size());
    std::map<std::tuple<std::uint32_t, std::uint32_t, int, Index>, std::vector<Box>> boxes;
    for_each_cell(model, from, to, [&](const Cell& cell) {
        const Parcel& parcel = parcels.parcels[cell.parcel];
        const TensorClass& kind = model.classes[cell.tensor_class];
        CHECK(parcel.role == cell.role);
        CHECK(filled[cell.parcel] == cell.begin);
        filled[cell.parcel] += cell.bytes;
        const std::uint64_t tensors =
            std::max<std::uint64_t>(cell.layers.size(), 1) * (kind.experts > 0 ? cell.experts.size() : 1);
        CHECK(cell.bytes == tensors * volume(cell.box) * itemsize(model.roles[cell.role].dtype));
        for (int layer : cell.layers.empty() ? std::vector{-1} : cell.layers) {
            for (Index e = cell.experts.begin; e < std::max(cell.experts.end, cell.experts.begin + 1); ++e)
                boxes[{cell.role, cell.tensor_class, layer, e}].push_back(cell.box);
        }
    });
    for (std::size_t i = 0; i < filled.size(); ++i) CHECK(filled[i] == parcels.parcels[i].bytes);
    for (const auto& [tensor, tiles] : boxes) {
        Index covered = 0;
        for (const Box& box : tiles) {
            covered += volume(box);
            CHECK(contains(whole(model.classes[std::get<1>(tensor)].shape), box));
            for (const Box& other : tiles) CHECK((&box == &other || box.empty() || empty(intersect(box, other))));
        }
        CHECK(covered == volume(model.classes[std::get<1>(tensor)].shape));
    }
}

TEST_CASE("parcels equal a count by ranks, layers, experts and elements, one by one") {
    RandomSource random{7};
    int done = 0;
    for (int round = 0; round < 4000; ++round) {
        const ModelState model = random_model_with_virtual_nodes(random);
        const Layout from = random_layout(random, model.layers);
        const Layout to = random.once_in(8) ? from : random_layout(random, model.layers);
        CAPTURE(round);
        CAPTURE(to_string(from));
        CAPTURE(to_string(to));
        Parcels parcels;
        try {
            parcels = model_parcels(model, from, to);
        } catch (const Error& error) {
            CHECK(error.exit() == Exit::usage);
            continue;
        }
        ++done;
        const Expected expected = brute_force(model, from, to);
        REQUIRE(amounts_of(parcels) == expected.amounts);
        CHECK(held_bytes(model, to) == expected.held);
        check_cells(model, from, to, parcels);
    }
    CHECK(done > 1500);
}

TEST_CASE("a change to the same layout recuts nothing and keeps every byte on its ranks") {
    RandomSource random{11};
    for (int round = 0; round < 100; ++round) {
        const ModelState model = random_model_with_virtual_nodes(random);
        const Layout layout = random_layout(random, model.layers);
        try {
            const Parcels parcels = model_parcels(model, layout, layout);
            for (const Parcel& parcel : parcels.parcels) {
                CHECK_FALSE(parcel.recut);
                CHECK(list(parcels.holders, parcel.holders) == list(parcels.needers, parcel.needers));
            }
        } catch (const Error& error) {
            CHECK(error.exit() == Exit::usage);
        }
    }
}

std::string refusal(const ModelState& model, const std::string& from) {
    try {
        model_parcels(model, parse_layout(from), Layout{});
    } catch (const Error& error) {
        CHECK(error.exit() == Exit::usage);
        return error.what();
    }
    return "";
}

TEST_CASE("an invalid layout is refused with the tensor, the numbers and the nearest valid one") {
    ModelState model{.name = "m", .layers = 4, .roles = {{Role::weight, DType::bf16}}};
    model.classes = {{.name = "q", .shape = {24, 8}, .tp_axis = 0, .layers = {0, 1, 2, 3}},
                     {.name = "down", .shape = {8, 6}, .tp_axis = 1, .layers = {0, 1, 2, 3}, .experts = 8}};
    CHECK(refusal(model, "tp=5") ==
          "tp=5: tensor 'q': axis 0 of length 24 cannot be split across tp=5; use tp=1, 2, 3, 4, 6 or 8");
    CHECK(refusal(model, "tp=4,etp=4") ==
          "tp=4: tensor 'down': axis 1 of length 6 cannot be split across etp=4; use etp=1, 2, 3 or 6");
    CHECK(refusal(model, "ep=3,dp=3") ==
          "dp=3,ep=3: tensor 'down': 8 experts cannot be split across ep=3; use ep=1, 2 or 4");
    CHECK(refusal(model, "pp=3") ==
          "pp=3: layout: 4 layers cannot be split evenly across 3 stages; use pp=1, 2 or 4, or "
          "first=, last= or stages=[1,2,1]");
    CHECK(refusal(model, "tp=2,etp=1,dp=2,pp=2,order=tp-pp-cp-ep-dp") ==
          "tp=2,pp=2,dp=2,etp=1,order=tp-pp-cp-ep-dp: layout: order=tp-pp-cp-ep-dp: stages are 1 rank apart for "
          "experts, 2 for all other parameters; put pp last");
    model.classes[0].shape = {Index{1} << 40, Index{1} << 21};
    CHECK(refusal(model, "tp=1") ==
          "tensor 'q': shape [1099511627776, 2097152], 4 layers, 0 experts: more than 2^62 bytes");
}

}  // namespace
