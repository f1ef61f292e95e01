// SPDX-License-Identifier: Apache-2.0
#include "lib/cluster/backfill_queue.hpp"

#include <algorithm>
#include <bit>

namespace tpx {

void FirstSmall::update(std::size_t node) { least_[node] = std::min(least_[2 * node], least_[2 * node + 1]); }

void FirstSmall::push_back(Time value) {
    const std::size_t leaves = least_.size() / 2;
    if (size_ == leaves) {
        std::vector<Time> grown(std::max<std::size_t>(4, 4 * leaves), never);
        std::copy(least_.begin() + static_cast<std::ptrdiff_t>(leaves), least_.end(),
                  grown.begin() + static_cast<std::ptrdiff_t>(grown.size() / 2));
        least_ = std::move(grown);
        for (std::size_t node = least_.size() / 2; node-- > 1;) update(node);
    }
    set(size_++, value);
}

void FirstSmall::set(std::size_t position, Time value) {
    std::size_t node = least_.size() / 2 + position;
    least_[node] = value;
    while ((node /= 2) > 0) update(node);
}

std::size_t FirstSmall::find(std::size_t from, Time most) const {
    if (from >= size_) return size_;
    std::size_t node = least_.size() / 2 + from;
    while (least_[node] > most) {  // the next subtree to the right
        if (std::has_single_bit(node + 1)) return size_;
        ++node;
        while (node % 2 == 0) node /= 2;
    }
    while (node < least_.size() / 2) node = least_[2 * node] <= most ? 2 * node : 2 * node + 1;
    return node - least_.size() / 2;
}

int BackfillQueue::Group::next(int id, Time most) const {
    const auto from = static_cast<std::size_t>(std::ranges::upper_bound(ids, id) - ids.begin());
    const std::size_t found = times.find(from, most);
    return found < times.size() ? ids[found] : any;
}

namespace {

// Whether only free GPUs decide if a job fits.
bool asks_for_gpus_only(const TraceJob& job) {
    return job.cpus == 0 && job.memory == 0 && job.kinds.empty() && (job.tenant == any || !job.guaranteed);
}

}  // namespace

BackfillQueue::Group& BackfillQueue::group_of(const TraceJob& job) {
    const bool alike = asks_for_gpus_only(job);
    const int gpus = alike ? job.gpus : 0, kind = alike ? job.kind : any;
    const auto found = std::ranges::find_if(
        groups_, [&](const Group& is) { return is.gpus == gpus && is.kind == kind && is.alike == alike; });
    return found != groups_.end() ? *found : groups_.emplace_back(Group{gpus, kind, alike, {}, {}});
}

void BackfillQueue::insert(const Simulation& simulation, int id) {
    const TraceJob& job = simulation.job(id);
    const double rate = job.speed->rate_anywhere(job.gpus);
    const double time = rate > 0 ? simulation.remaining(id) / rate - 1 : 0;  // 1 less, because steps_time() rounds
    Group& group = group_of(job);
    group.ids.push_back(id);
    group.times.push_back(static_cast<Time>(std::clamp(time, 0.0, 4e18)));
    ++count_;
}

void BackfillQueue::update(const Simulation& simulation) {
    const std::vector<int>& waiting = simulation.waiting();
    auto come = std::ranges::lower_bound(waiting, next_);
    if (static_cast<std::size_t>(come - waiting.begin()) != count_ || simulation.interventions() != interventions_) {
        groups_.clear();
        count_ = 0;
        come = waiting.begin();
    }
    for (; come != waiting.end(); ++come) insert(simulation, *come);
    if (!waiting.empty()) next_ = std::max(next_, waiting.back() + 1);
    interventions_ = simulation.interventions();
}

void BackfillQueue::erase(const Simulation& simulation, int id) {
    Group& group = group_of(simulation.job(id));
    group.times.set(static_cast<std::size_t>(std::ranges::lower_bound(group.ids, id) - group.ids.begin()), never);
    --count_;
}

}  // namespace tpx
