// SPDX-License-Identifier: Apache-2.0
#include "lib/model/routes.hpp"

#include "lib/core/counted.hpp"
#include "lib/core/error.hpp"

#include <algorithm>
#include <cmath>

namespace tpx {
namespace {

int stage_size(const ExecutionPlan& plan) { return plan.tp * plan.cp * plan.dp; }

// Where tensor groups are cut: the stages, and the NICs of the smaller part of the worst cut.
void find_cuts(const ExecutionPlan& plan, const Allocation& allocation, Routes& routes) {
    int boundary = 0, cut_stages = 0, last_cut = -1;
    for (std::size_t i = 0; i + 1 < allocation.gpus.size(); ++i) {
        boundary += allocation.gpus[i];
        const int part = boundary % plan.tp;
        if (part == 0) continue;
        const double nics = std::ceil(std::min(part, plan.tp - part) / allocation.gpus_per_nic);
        routes.tensor_nics = cut_stages == 0 ? nics : std::min(routes.tensor_nics, nics);
        if (boundary / stage_size(plan) != last_cut) ++cut_stages;
        last_cut = boundary / stage_size(plan);
    }
    routes.tensor_cut = static_cast<double>(cut_stages) / plan.pp;
}

// Borders between stages that are borders between hosts, and the NICs of each GPU there: all GPUs of a stage send at
// the same time.
void find_borders(const ExecutionPlan& plan, const Allocation& allocation, Routes& routes) {
    if (plan.pp <= 1) return;
    const int stage = stage_size(plan);
    int first = 0, inside = 0;
    for (const int gpus : allocation.gpus) {
        const int whole = (first + gpus) / stage - (first + stage - 1) / stage;  // stages with all ranks on this host
        inside += std::max(0, whole - 1);
        const int senders = std::min(gpus, stage);
        const double nics = std::ceil(senders / allocation.gpus_per_nic) / senders;
        routes.pipeline_nics = first == 0 ? nics : std::min(routes.pipeline_nics, nics);
        first += gpus;
    }
    routes.pipeline_cut = 1 - static_cast<double>(inside) / (plan.pp - 1);
}

// The ranks of one host, and the NICs through which their rings of the gradient exchange leave it. Ranks are counted
// from the host's first one; a ring has every tp-th rank of a stage.
class HostRings {
public:
    HostRings(const ExecutionPlan& plan, int first, int count, double gpus_per_nic)
        : plan_{plan}, first_{first}, count_{count}, gpus_per_nic_{std::max(1.0, gpus_per_nic)} {}

    // The NICs of the ring that has fewest; 0 if none leaves the host.
    double fewest_nics() const {
        double fewest = 0;
        for (int rank = 0; rank < count_; ++rank) {
            const bool counted = rank >= plan_.tp && same_ring(rank, rank - plan_.tp);
            if (counted || !leaves(rank)) continue;
            const double nics = nics_of_ring(rank);
            fewest = fewest > 0 ? std::min(fewest, nics) : nics;
        }
        return fewest;
    }

private:
    int stage(int rank) const { return (first_ + rank) / stage_size(plan_); }
    int nic(int rank) const { return static_cast<int>(rank / gpus_per_nic_); }
    bool same_ring(int a, int b) const { return stage(a) == stage(b) && (a - b) % plan_.tp == 0; }

    bool leaves(int rank) const {
        const int begin = stage(rank) * stage_size(plan_);
        const int lowest = begin + (first_ + rank - begin) % plan_.tp;
        const int highest = lowest + plan_.tp * (plan_.dp * plan_.cp - 1);
        return lowest < first_ || highest >= first_ + count_;
    }

    // The NICs of the ring whose first rank here is `rank`; one that several rings share counts in part.
    double nics_of_ring(int rank) const {
        double nics = 0;
        const int ring_stage = stage(rank);
        for (int last = -1; rank < count_ && stage(rank) == ring_stage; rank += plan_.tp) {
            if (nic(rank) != last) nics += 1.0 / rings_through(nic(rank));
            last = nic(rank);
        }
        return nics;
    }

    int rings_through(int nic_index) const {
        int rings = 0;
        const int begin = static_cast<int>(std::ceil(nic_index * gpus_per_nic_));
        for (int a = begin; a < count_ && nic(a) == nic_index; ++a) {
            bool is_new = leaves(a);
            for (int b = begin; b < a && is_new; ++b) is_new = !same_ring(a, b);
            rings += is_new;
        }
        return rings;
    }

    const ExecutionPlan& plan_;
    int first_, count_;
    double gpus_per_nic_;
};

// Whether the rings leave each host as they leave the first one.
bool hosts_alike(const ExecutionPlan& plan, const Allocation& allocation) {
    const int gpus = allocation.gpus.front();
    return stage_size(plan) % gpus == 0 && (gpus % plan.tp == 0 || plan.tp % gpus == 0) &&
           std::ranges::all_of(allocation.gpus, [&](int each) { return each == gpus; });
}

double data_nics(const ExecutionPlan& plan, const Allocation& allocation) {
    if (plan.dp * plan.cp <= 1) return 0;
    double fewest = 0;
    int first = 0;
    const std::size_t hosts = hosts_alike(plan, allocation) ? 1 : allocation.gpus.size();
    for (std::size_t host = 0; host < hosts; first += allocation.gpus[host++]) {
        const double nics = HostRings{plan, first, allocation.gpus[host], allocation.gpus_per_nic}.fewest_nics();
        if (nics > 0) fewest = fewest > 0 ? std::min(fewest, nics) : nics;
    }
    return fewest / std::min(1.0, allocation.gpus_per_nic);
}

}  // namespace

Routes routes_of(const ExecutionPlan& plan, const Allocation& allocation) {
    if (allocation.gpus.empty() || plan.gpus() != allocation.total())
        throw Error{Exit::usage,        "the plan {} uses {}, but {} {} allocated",
                    to_string(plan),    counted(static_cast<std::uint64_t>(plan.gpus()), "GPU"),
                    allocation.total(), allocation.total() == 1 ? "is" : "are"};
    Routes routes;
    if (allocation.gpus.size() == 1) return routes;
    find_cuts(plan, allocation, routes);
    find_borders(plan, allocation, routes);
    routes.data_nics = data_nics(plan, allocation);
    routes.further_hosts = static_cast<int>(allocation.gpus.size()) - 1;
    routes.uneven =
        std::ranges::any_of(allocation.gpus, [&](int gpus) { return std::fmod(gpus, allocation.gpus_per_nic) != 0; });
    routes.largest_nics = std::ceil(std::ranges::max(allocation.gpus) / allocation.gpus_per_nic);
    routes.alike = std::ranges::all_of(
        allocation.gpus, [&](int gpus) { return gpus == allocation.gpus.front() && gpus <= allocation.gpus_per_nic; });
    return routes;
}

}  // namespace tpx
