// SPDX-License-Identifier: Apache-2.0
#include "lib/cluster/job_order.hpp"

#include <algorithm>
#include <iterator>
#include <optional>
#include <string_view>
#include <utility>

namespace tpx {
namespace {

bool runs(const Simulation& simulation, int id) { return !simulation.grant(id).parts.empty(); }

// The running jobs to stop, from the end of `after`, so that `id` fits once their GPUs are free; unset if it does not
// fit even then.
std::optional<std::vector<int>> victims_for(const Simulation& simulation, int id, std::span<const int> after) {
    const TraceJob& job = simulation.job(id);
    GpuPool pool = simulation.pool_after_releases();
    std::vector<int> victims;
    if (pool.place(job, job.gpus)) return victims;
    for (std::size_t i = after.size(); i-- > 0;) {
        if (!runs(simulation, after[i])) continue;
        victims.push_back(after[i]);
        pool.give(simulation.needs(after[i]), simulation.grant(after[i]).parts);
        if (pool.free(job.kind) >= job.gpus && pool.place(job, job.gpus)) return victims;
    }
    return {};
}

}  // namespace

std::vector<int> all_jobs(const Simulation& simulation) {
    std::vector<int> jobs;
    jobs.reserve(simulation.waiting().size() + simulation.running().size());
    std::ranges::merge(simulation.waiting(), simulation.running(), std::back_inserter(jobs));
    return jobs;
}

namespace {

// Whether `a` comes before `b`, where numbers in them count by value.
bool is_before(std::string_view a, std::string_view b) {
    const auto take_number = [](std::string_view& text) {
        text.remove_prefix(std::min(text.find_first_not_of('0'), text.size()));
        const std::string_view digits = text.substr(0, text.find_first_not_of("0123456789"));
        text.remove_prefix(digits.size());
        return std::pair{digits.size(), digits};
    };
    const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
    while (!a.empty() && !b.empty()) {
        if (is_digit(a[0]) && is_digit(b[0])) {
            const auto one = take_number(a), other = take_number(b);
            if (one != other) return one < other;
        } else {
            if (a[0] != b[0]) return a[0] < b[0];
            a.remove_prefix(1);
            b.remove_prefix(1);
        }
    }
    return a.size() < b.size();
}

}  // namespace

bool arrived_before(const TraceJob& a, const TraceJob& b) {
    return a.arrival != b.arrival ? a.arrival < b.arrival : is_before(a.name, b.name);
}

bool PriorityOrder::before(const Simulation& simulation, int a, int b) const {
    const TraceJob &one = simulation.job(a), &other = simulation.job(b);
    if (one.priority != other.priority) return one.priority > other.priority;
    if (by_name_ && one.arrival == other.arrival) {
        if (arrived_before(one, other)) return true;
        if (arrived_before(other, one)) return false;
    }
    return a < b;
}

const std::vector<int>& PriorityOrder::update(const Simulation& simulation) {
    const std::vector<int>& waiting = simulation.waiting();
    const auto first = [&](int a, int b) { return before(simulation, a, b); };
    const auto come = std::ranges::lower_bound(waiting, next_);
    if (order_.size() != static_cast<std::size_t>(come - waiting.begin())) {  // jobs were stopped and wait again
        order_ = waiting;
        std::ranges::sort(order_, first);
    } else {
        for (auto id = come; id != waiting.end(); ++id)
            order_.insert(std::ranges::upper_bound(order_, *id, first), *id);
    }
    if (!waiting.empty()) next_ = std::max(next_, waiting.back() + 1);
    return order_;
}

void PriorityOrder::remove(const Simulation& simulation, int id) {
    const auto first = [&](int a, int b) { return before(simulation, a, b); };
    const auto found = std::ranges::lower_bound(order_, id, first);
    if (found != order_.end() && *found == id) order_.erase(found);
}

bool start_only_waiting(Simulation& simulation) {
    const std::vector<int>& waiting = simulation.waiting();
    if (waiting.size() != 1) return waiting.empty();
    return start_in_order(simulation, std::vector{waiting[0]}) == 1;
}

std::size_t start_in_order(Simulation& simulation, const std::vector<int>& order) {
    for (std::size_t i = 0; i < order.size(); ++i) {
        const int gpus = simulation.job(order[i]).gpus;
        if (!simulation.within_quota(order[i], gpus)) continue;
        auto grant = simulation.place(order[i], gpus);
        if (!grant) return i;
        simulation.start(order[i], std::move(*grant));
    }
    return order.size();
}

bool run_waiting(Simulation& simulation, int id, std::span<const int> after, int& later) {
    const int gpus = simulation.job(id).gpus;
    auto grant = simulation.place(id, gpus);
    if (!grant && simulation.within_quota(id, gpus)) {
        const auto victims = victims_for(simulation, id, after);
        if (!victims) return true;
        for (const int victim : *victims) {
            later -= simulation.grant(victim).gpus();
            simulation.stop(victim);
        }
        grant = simulation.place(id, gpus);
        if (!grant) return false;
    }
    if (grant) simulation.start(id, std::move(*grant));
    return true;
}

void run_in_order(Simulation& simulation, const std::vector<int>& order) {
    int later = 0;  // GPUs of running jobs that come later in the order
    for (const int id : order) later += simulation.grant(id).gpus();
    for (std::size_t i = 0; i < order.size(); ++i) {
        const int id = order[i];
        if (runs(simulation, id))
            later -= simulation.grant(id).gpus();
        else if (simulation.pool_after_releases().free() + later >= simulation.job(id).gpus &&
                 !run_waiting(simulation, id, std::span{order}.subspan(i + 1), later))
            return;
    }
}

}  // namespace tpx
