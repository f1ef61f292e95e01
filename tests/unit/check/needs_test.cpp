// SPDX-License-Identifier: Apache-2.0
#include "formats/files/plan/plan_tables.hpp"
#include "lib/change/model_parcels.hpp"
#include "lib/change/piece_parcels.hpp"
#include "lib/check/check_cells.hpp"
#include "lib/check/model_needs.hpp"
#include "lib/check/piece_needs.hpp"
#include "lib/core/error.hpp"
#include "tests/unit/change/random_models.hpp"
#include "tests/unit/change/random_sides.hpp"

#include <doctest/doctest.h>

#include <functional>

using namespace tpx;
using namespace tpx::testing::models;

namespace {

/// The tables of a plan with the held and needed bytes, but without hosts.
PlanTables tables_of(const Parcels& parcels, const ModelState* model) {
    Change plan;
    plan.parcels = parcels;
    plan.old_ranks.resize(static_cast<std::size_t>(parcels.old_ranks));
    plan.placement.devices.resize(static_cast<std::size_t>(parcels.new_ranks));
    PlanTables tables;
    tables.hosts = formats::to_tables(plan, model);
    if (model != nullptr) tables.model = formats::to_tables(*model);
    return tables;
}

template <class Needs>
std::string fault(const PlanTables& tables) {
    try {
        ParcelChecker checker{*tables.hosts};
        Needs needs{tables, checker};
        for (std::size_t rank = 0; rank < tables.hosts->new_devices.size(); ++rank) {
            needs.add(static_cast<std::int32_t>(rank));
            checker.close(static_cast<std::int32_t>(rank));
        }
    } catch (const Error& found) {
        return found.what();
    }
    return "";
}

std::string fault_of_cells(const PlanTables& tables) {
    try {
        check_cells(*tables.held, *tables.hosts);
    } catch (const Error& found) {
        return found.what();
    }
    return fault<PieceNeeds>(tables);
}

/// Alters one cell in ways that keep its number of bytes; each alteration must be found.
void check_altered_cells(const PlanTables& good, testing::RandomSides& random) {
    const auto found = [&](const std::function<void(HeldTables&)>& alter) {
        PlanTables bad = good;
        alter(*bad.held);
        CHECK(fault_of_cells(bad) != "");
    };
    const std::size_t one =
        static_cast<std::size_t>(random.number(0, static_cast<int>(good.held->cells.box.size()) - 1));
    const Box& box = good.held->cells.box[one];
    const Shape& shape = good.held->tensors[good.held->cells.tensor[one]].shape;
    found([&](HeldTables& t) { ++t.cells.begin[one]; });
    found([&](HeldTables& t) { ++t.cells.parcel[one]; });
    for (int axis = 0; axis < box.size(); ++axis) {
        if (box[axis].size() > 1) found([&](HeldTables& t) { --t.cells.box[one][axis].end; });
        if (box[axis].end == shape[axis]) continue;
        found([&](HeldTables& t) { ++t.cells.box[one][axis].end; });
        found([&](HeldTables& t) {
            ++t.cells.box[one][axis].begin;
            ++t.cells.box[one][axis].end;
        });
    }
}

/// Alters the parcels in ways that keep them valid; each alteration must be found.
void check_alterations(const PlanTables& good, const std::function<std::string(const PlanTables&)>& fault_of) {
    const auto found = [&](const std::function<void(HostTables&)>& alter) {
        PlanTables bad = good;
        alter(*bad.hosts);
        CHECK(fault_of(bad) != "");
    };
    const std::size_t last = good.hosts->parcels.bytes.size() - 1;
    found([&](HostTables& t) { ++t.parcels.bytes[last]; });
    found([&](HostTables& t) { --t.parcels.bytes[0]; });
    found([&](HostTables& t) { t.parcels.recut[last] ^= 1; });
    found([&](HostTables& t) { t.parcels.role[0] ^= 1; });
    found([&](HostTables& t) { t.parcels.tensor[last] += 1; });
    found([&](HostTables& t) {
        for (auto* column :
             {&t.parcels.holders, &t.parcels.needers, &t.parcels.role, &t.parcels.tensor, &t.parcels.recut})
            column->pop_back();
        t.parcels.bytes.pop_back();
    });
    found([&](HostTables& t) {
        t.holders.values.insert(t.holders.values.begin(), t.holders.values.empty() ? 0 : t.holders.values[0] + 1);
        for (std::size_t k = 1; k < t.holders.begin.size(); ++k) ++t.holders.begin[k];
    });
}

}  // namespace

TEST_CASE("needs in closed form accept the parcels of random models and layouts, and nothing else") {
    RandomSource random{5};
    int done = 0;
    for (int round = 0; round < 2000; ++round) {
        const ModelState model = random_model_with_virtual_nodes(random);
        const Layout from = random_layout(random, model.layers);
        const Layout to = random_layout(random, model.layers);
        Parcels parcels;
        try {
            parcels = model_parcels(model, from, to);
        } catch (const Error&) {
            continue;
        }
        if (parcels.parcels.empty()) continue;
        CAPTURE(round);
        CAPTURE(to_string(from));
        CAPTURE(to_string(to));
        PlanTables tables = tables_of(parcels, &model);
        tables.from = to_string(from);
        tables.to = to_string(to);
        REQUIRE(fault<ModelNeeds>(tables) == "");
        check_alterations(tables, fault<ModelNeeds>);
        ++done;
    }
    CHECK(done > 500);
}

TEST_CASE("needs listed as pieces accept the parcels of random pieces, and nothing else") {
    testing::RandomSides random{6};
    for (int round = 0; round < 300; ++round) {
        HeldTables held;
        held.tensors = random.tensors(random.number(1, 3));
        held.before = random.cover(held.tensors, 3).pieces;
        held.after = random.cover(held.tensors, 4).pieces;
        std::vector<std::uint32_t> roles;
        for (std::size_t t = 0; t < held.tensors.size(); ++t) {
            roles.push_back(random.number(0, 1));
            held.roles.emplace_back(roles.back() == 0 ? "weight" : "master");
        }
        const Side before{held.tensors, held.before};
        const Side after{held.tensors, held.after};
        const Parcels parcels = parcels_of(before, after, roles, {Role::weight, Role::master}, 8, 8);
        if (parcels.parcels.empty()) continue;
        CAPTURE(round);
        PlanTables tables = tables_of(parcels, nullptr);
        tables.held = held;
        REQUIRE(fault<PieceNeeds>(tables) == "");
        check_alterations(tables, fault<PieceNeeds>);
        for (const PieceCell& cell : cells_of(before, after, roles, {Role::weight, Role::master}, 8, 8)) {
            tables.held->cells.parcel.push_back(cell.parcel);
            tables.held->cells.tensor.push_back(cell.tensor);
            tables.held->cells.begin.push_back(cell.begin);
            tables.held->cells.box.push_back(cell.box);
        }
        REQUIRE(fault_of_cells(tables) == "");
        check_altered_cells(tables, random);
    }
}
