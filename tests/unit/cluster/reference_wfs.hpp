// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/cluster/job.hpp"

#include <algorithm>
#include <cmath>

namespace tpx::test {

/// Elastic fair sharing from event to event, all jobs looked at each time, GPUs counted and not placed, changes free of
/// charge: written from the paper's algorithm, sharing nothing with the policy. Times are seconds.
class ReferenceWfs {
public:
    struct Fate {
        double start = -1, finish = -1;
    };

    ReferenceWfs(const std::vector<TraceJob>& jobs, int gpus)
        : jobs_{jobs}, gpus_{gpus}, left_(jobs.size()), has_(jobs.size()), known_(jobs.size()), fates_(jobs.size()) {
        for (std::size_t i = 0; i < jobs.size(); ++i) left_[i] = jobs[i].work / second * jobs[i].gpus;
    }

    std::vector<Fate> play() {
        while (std::ranges::any_of(fates_, [](const Fate& fate) { return fate.finish < 0; })) {
            const double next = next_event();
            for (std::size_t i = 0; i < jobs_.size(); ++i) left_[i] -= has_[i] * (next - now_);
            now_ = next;
            for (std::size_t i = 0; i < jobs_.size(); ++i)
                if (has_[i] > 0 && left_[i] <= rounding * has_[i]) has_[i] = 0, fates_[i].finish = now_;
            decide();
            bool came = false;
            for (std::size_t i = 0; i < jobs_.size(); ++i)
                if (!known_[i] && arrival(i) <= now_) known_[i] = came = true;
            if (came) decide();
        }
        return fates_;
    }

private:
    static constexpr double rounding = 1e-5;
    using Shares = std::vector<int>;

    double arrival(std::size_t i) const { return static_cast<double>(jobs_[i].arrival) / second; }
    bool done(std::size_t i) const { return fates_[i].finish >= 0; }

    double next_event() const {
        double next = HUGE_VAL;
        for (std::size_t i = 0; i < jobs_.size(); ++i) {
            if (!known_[i]) next = std::min(next, arrival(i));
            if (has_[i] > 0) next = std::min(next, now_ + left_[i] / has_[i]);
        }
        return next;
    }

    // Shares of the jobs in `in`, in the order of numbers; 0 for all others.
    Shares shares_of(const std::vector<bool>& in) const {
        Shares shares(jobs_.size());
        std::vector<bool> settled(jobs_.size());
        int free = gpus_;
        for (bool again = true; again;) {
            double weights = 0;
            int sum = 0;
            for (std::size_t i = 0; i < jobs_.size(); ++i)
                if (in[i] && !settled[i]) weights += jobs_[i].priority;
            for (std::size_t i = 0; i < jobs_.size(); ++i) {
                if (!in[i] || settled[i]) continue;
                const double fair = std::max(1.0, free * jobs_[i].priority / weights);
                for (shares[i] = 1; 2 * shares[i] <= fair;) shares[i] *= 2;
                sum += shares[i];
            }
            while (sum > free) {
                const int poorest = least_of(in, settled, shares);
                if (poorest < 0) break;
                sum -= shares[poorest] /= 2;
            }
            again = false;
            for (std::size_t i = 0; i < jobs_.size(); ++i) {
                if (!in[i] || settled[i] || shares[i] < jobs_[i].gpus) continue;
                shares[i] = jobs_[i].gpus;
                free -= shares[i];
                settled[i] = again = true;
            }
        }
        for (std::size_t i = 0; i < jobs_.size(); ++i)
            if (in[i] && !settled[i]) free -= shares[i];
        for (const double priority : {10.0, 5.0, 1.0})
            for (std::size_t i = 0; i < jobs_.size(); ++i)
                while (in[i] && jobs_[i].priority == priority && shares[i] <= free && 2 * shares[i] <= jobs_[i].gpus)
                    free -= shares[i], shares[i] *= 2;
        return shares;
    }

    // Of those with more than one GPU the first with the lowest priority; -1: there are none.
    int least_of(const std::vector<bool>& in, const std::vector<bool>& settled, const Shares& shares) const {
        int least = -1;
        for (std::size_t i = 0; i < jobs_.size(); ++i)
            if (in[i] && !settled[i] && shares[i] > 1 && (least < 0 || jobs_[i].priority < jobs_[least].priority))
                least = static_cast<int>(i);
        return least;
    }

    void decide() {
        std::vector<bool> in(jobs_.size()), ran;
        for (std::size_t i = 0; i < jobs_.size(); ++i) in[i] = has_[i] > 0;
        ran = in;
        Shares shares = shares_of(in);
        for (const double priority : {10.0, 5.0, 1.0}) {
            for (std::size_t i = 0; i < jobs_.size(); ++i) {
                if (!known_[i] || done(i) || in[i] || jobs_[i].priority != priority) continue;
                if (std::ranges::count(in, true) >= gpus_) return give(shares);
                in[i] = true;
                const Shares with = shares_of(in);
                for (std::size_t other = 0; other < jobs_.size(); ++other)
                    if (ran[other] && jobs_[other].priority > priority && with[other] < shares[other])
                        return give(shares);
                shares = with;
            }
        }
        give(shares);
    }

    void give(const Shares& shares) {
        has_ = shares;
        for (std::size_t i = 0; i < jobs_.size(); ++i)
            if (has_[i] > 0 && fates_[i].start < 0) fates_[i].start = now_;
    }

    const std::vector<TraceJob>& jobs_;
    int gpus_;
    double now_ = 0;
    std::vector<double> left_;  // GPU-seconds
    Shares has_;
    std::vector<bool> known_;
    std::vector<Fate> fates_;
};

}  // namespace tpx::test
