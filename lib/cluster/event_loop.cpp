// SPDX-License-Identifier: Apache-2.0
#include "lib/cluster/simulation.hpp"

#include <algorithm>
#include <cassert>
#include <utility>

namespace tpx {

void Simulation::happen(const Event& event) {
    const int subject = event.subject;
    switch (event.kind) {
        case Kind::down:
            return host_down(subject);
        case Kind::up:
            if (--down_[subject] == 0) pool_.set_up(subject, true), soon_.set_up(subject, true);
            return;
        case Kind::released:
            --changes_;
            states_[subject].leaving = difference_of(states_[subject].leaving, event.parts);
            return released(subject, event.parts);
        case Kind::scripted:
            return scripted(rules_.script[static_cast<std::size_t>(subject)]);
        case Kind::observed:
            return observed(subject);
        case Kind::ready:
            if (event.version == states_[subject].version) ready(subject);
            return;
        case Kind::shrunk:
            if (event.version != states_[subject].version) return;
            ready(subject);
            return give_back(subject, event.parts);
    }
}

Time Simulation::next_time() const {
    Time time = wake_;
    if (!finishes_.empty()) time = std::min(time, finishes_.begin()->first);
    if (!events_.empty()) time = std::min(time, events_.top().time);
    if (next_arrival_ < static_cast<int>(jobs_.size())) time = std::min(time, jobs_[next_arrival_].arrival);
    return time;
}

// Whether what was to be measured is over.
bool Simulation::is_stale(const Event& event) const {
    return event.kind == Kind::observed && event.version != states_[event.subject].period;
}

// Everything that is due now: jobs finish first, then delays end and hosts fail or return, then jobs come.
void Simulation::happen_all() {
    while (!finishes_.empty() && finishes_.begin()->first == now_) {
        finish(finishes_.begin()->second);
        dirty_ = true, ++results_.events;
    }
    while (!events_.empty() && events_.top().time == now_) {
        const Event event = events_.top();
        events_.pop();
        if (is_timer(event.kind)) --timers_;
        if (is_stale(event)) continue;
        happen(event);
        dirty_ = true, ++results_.events;
    }
    if (!short_hosts_.empty()) take_back();
    for (; next_arrival_ < static_cast<int>(jobs_.size()) && jobs_[next_arrival_].arrival == now_; ++next_arrival_) {
        states_[next_arrival_].since = now_;
        waiting_.push_back(next_arrival_);  // the last in order
        dirty_ = true, ++results_.events;
    }
}

Time Simulation::round_after(Time time) const {
    if (rules_.quantum == 0) return time;
    return (time + rules_.quantum - 1) / rules_.quantum * rules_.quantum;
}

void Simulation::call(Policy& policy) {
    if (rules_.quantum > 0) {
        if (dirty_) wake_ = std::min(wake_, round_after(now_));
        if (wake_ != now_) return;
    } else if (!dirty_ && wake_ != now_) {
        return;
    }
    if (wake_ == now_) wake_ = never;
    dirty_ = false;
    if (waiting_.empty() && running_.empty()) return;
    const std::uint64_t before = actions_;
    if (std::exchange(outdated_, false)) policy.forget();
    policy.schedule(*this);
    idle_calls_ = actions_ == before && nothing_to_come() ? idle_calls_ + 1 : 0;
}

// No job will finish or come, no delay or outage will end: only the policy itself may still do something.
bool Simulation::nothing_to_come() const {
    return finishes_.empty() && events_.empty() && next_arrival_ == static_cast<int>(jobs_.size());
}

// Policies that ask to be called again and again, and do nothing, are not asked for ever.
bool Simulation::is_stuck() const {
    constexpr int patience = 1000;
    return next_time() == never || idle_calls_ >= patience;
}

SimulationResults Simulation::run(Policy& policy, const std::function<void(int)>& progress) {
    freedom_ = policy.freedom();
    resizes_ = policy.resizes();
    while (finished_ < static_cast<int>(jobs_.size()) || timers_ > 0) {
        if (is_stuck()) break;
        const Time next = next_time();
        assert(next >= now_);
        now_ = next;
        happen_all();
        call(policy);
        if (progress) progress(finished_);
    }
    for (const int id : running_) account(id);
    return std::move(results_);
}

}  // namespace tpx
