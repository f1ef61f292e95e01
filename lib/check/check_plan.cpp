// SPDX-License-Identifier: Apache-2.0
#include "lib/check/check_plan.hpp"

#include "lib/check/check_cells.hpp"
#include "lib/check/check_counts.hpp"
#include "lib/check/check_placement.hpp"
#include "lib/check/check_sending.hpp"
#include "lib/check/check_shape.hpp"
#include "lib/check/check_transfers.hpp"
#include "lib/check/layout_text.hpp"
#include "lib/check/model_needs.hpp"
#include "lib/check/piece_needs.hpp"
#include "lib/core/error.hpp"

#include <algorithm>
#include <numeric>
#include <random>
#include <set>

namespace tpx {
namespace {

/// `wanted` of `count` ranks, including the first and the last, the same in every run; or all ranks.
std::vector<std::int32_t> choose_ranks(std::size_t count, std::optional<std::size_t> wanted) {
    std::vector<std::int32_t> ranks(count);
    std::iota(ranks.begin(), ranks.end(), 0);
    const std::size_t enough = std::max<std::size_t>(wanted.value_or(count), 2);
    if (count <= enough) return ranks;
    std::mt19937_64 random{1};
    for (std::size_t i = 2; i < enough; ++i) std::swap(ranks[i], ranks[i + random() % (count - 1 - i)]);
    std::swap(ranks[1], ranks.back());
    ranks.resize(enough);
    return ranks;
}

template <class Needs>
void check_needs(Needs& needs, ParcelChecker& checker, std::span<const std::int32_t> ranks) {
    for (std::int32_t rank : ranks) {
        needs.add(rank);
        checker.close(rank);
    }
}

void check_needs(const PlanTables& tables, std::optional<std::size_t> sample, PlanCheck& result) {
    ParcelChecker checker{*tables.hosts};
    const std::vector<std::int32_t> ranks = choose_ranks(tables.hosts->new_devices.size(), sample);
    if (tables.model) {
        ModelNeeds needs{tables, checker};
        check_needs(needs, checker, ranks);
    }
    if (tables.held) {
        if (!tables.held->cells.box.empty()) check_cells(*tables.held, *tables.hosts);
        PieceNeeds needs{tables, checker};
        check_needs(needs, checker, ranks);
        result.cells = tables.held->cells.box.size();
    }
    result.ranks = ranks.size();
    result.compared = checker.compared();
}

/// Throws unless all sources hold state and agree on the iteration.
void check_iterations(const Facts& facts) {
    const auto& sources = facts.t.sources;
    const std::set<std::int32_t> holding{facts.old_host.begin(), facts.old_host.end()};
    for (std::size_t i = 0; i < sources.host.size(); ++i) {
        if (sources.iteration[i] != sources.iteration[0])
            throw failure("sources: iterations {} and {} are mixed", sources.iteration[0], sources.iteration[i]);
        const bool holds_state = sources.host[i] == storage_host
                                     ? facts.t.state == "shared"
                                     : holding.contains(static_cast<std::int32_t>(sources.host[i]));
        if (!holds_state) throw failure("sources: row {} is of a source that holds no state", i);
    }
}

void check_hosts(const PlanTables& tables, std::optional<std::size_t> sample, PlanCheck& result) {
    const HostTables& hosts = *tables.hosts;
    if (hosts.group != 1 && static_cast<std::int64_t>(hosts.group) != tp_span(read_degrees(tables.to)))
        throw failure("group: {} ranks are not whole TP groups of '{}'", hosts.group, tables.to);
    result.group = hosts.group;
    result.total_ranks = hosts.new_devices.size();
    result.parcels = hosts.parcels.bytes.size();
    check_needs(tables, sample, result);
    const Facts facts{hosts};
    check_iterations(facts);
    result.placements = check_placement(facts);
    check_transfers(facts);
    check_rounds(facts);
    result.transfers = hosts.transfers.parcel.size();
    check_counts(facts);
    check_sending(facts);
    result.crossing = hosts.crossing;
    result.seconds = hosts.sending_seconds;
    result.placed_for = hosts.pinned;
    result.group_bound = hosts.group_bound;
}

}  // namespace

PlanCheck check_plan(const PlanTables& tables, std::optional<std::size_t> sample) {
    PlanCheck result;
    try {
        check_shape(tables);
        if (tables.hosts) check_hosts(tables, sample, result);
    } catch (const Error& fault) {
        result.fault = fault.what();
    }
    return result;
}

}  // namespace tpx
