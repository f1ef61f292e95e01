// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/cluster/job.hpp"

#include <algorithm>
#include <string_view>

namespace tpx::test {

/// A simulator that shares nothing with the real one: second by second, all jobs looked at each time, GPUs counted and
/// not placed. Of each job, when it first ran and when it was done, in seconds.
class Reference {
public:
    struct Fate {
        long start = -1, finish = -1;
    };

    Reference(const std::vector<TraceJob>& jobs, int gpus, std::string_view policy)
        : jobs_{jobs}, gpus_{gpus}, policy_{policy}, left_(jobs.size()), had_(jobs.size()), runs_(jobs.size()) {
        for (std::size_t i = 0; i < jobs.size(); ++i) left_[i] = static_cast<long>(jobs[i].work) / second;
    }

    std::vector<Fate> play() {
        std::vector<Fate> fates(jobs_.size());
        for (long now = 0; std::ranges::any_of(fates, [](const Fate& fate) { return fate.finish < 0; }); ++now) {
            for (std::size_t i = 0; i < jobs_.size(); ++i)
                if (runs_[i] && left_[i] == 0) runs_[i] = false, fates[i].finish = now;
            decide(now);
            for (std::size_t i = 0; i < jobs_.size(); ++i) {
                if (!runs_[i]) continue;
                if (fates[i].start < 0) fates[i].start = now;
                --left_[i];
                had_[i] += jobs_[i].gpus;
            }
        }
        return fates;
    }

private:
    bool waits(std::size_t i, long now) const { return jobs_[i].arrival <= now * second && !runs_[i] && left_[i] > 0; }

    int free() const {
        int count = gpus_;
        for (std::size_t i = 0; i < jobs_.size(); ++i) count -= runs_[i] ? jobs_[i].gpus : 0;
        return count;
    }

    std::vector<std::size_t> all(long now) const {
        std::vector<std::size_t> active;
        for (std::size_t i = 0; i < jobs_.size(); ++i)
            if (runs_[i] || waits(i, now)) active.push_back(i);
        return active;
    }

    int level(std::size_t i) const {
        int levels = 0;
        for (const long hours : {1, 8, 64, 512}) levels += had_[i] >= hours * 3600;
        return levels;
    }

    void decide(long now) {
        std::vector<std::size_t> order = all(now);
        if (policy_ == "priority")
            std::ranges::stable_sort(order, std::greater{}, [&](std::size_t i) { return jobs_[i].priority; });
        if (policy_ == "srtf") std::ranges::stable_sort(order, {}, [&](std::size_t i) { return left_[i]; });
        if (policy_ == "las") std::ranges::stable_sort(order, {}, [&](std::size_t i) { return level(i); });
        if (policy_ == "antman")
            std::ranges::stable_sort(order, {}, [&](std::size_t i) { return 2 * !jobs_[i].guaranteed + !runs_[i]; });
        if (policy_ == "srtf" || policy_ == "las" || policy_ == "antman") return make_room(order);
        for (std::size_t at = 0; at < order.size(); ++at) {
            if (runs_[order[at]]) continue;
            if (jobs_[order[at]].gpus > free()) {
                if (policy_ == "fifo-backfill") backfill(order, at, now);
                if (policy_ == "synergy") continue;
                return;
            }
            runs_[order[at]] = true;
        }
    }

    void make_room(const std::vector<std::size_t>& order) {
        for (std::size_t at = 0; at < order.size(); ++at) {
            const std::size_t job = order[at];
            if (runs_[job]) continue;
            std::vector<std::size_t> out;
            int room = free();
            for (std::size_t last = order.size(); room < jobs_[job].gpus && --last > at;)
                if (runs_[order[last]]) out.push_back(order[last]), room += jobs_[order[last]].gpus;
            if (room < jobs_[job].gpus) continue;
            for (const std::size_t other : out) runs_[other] = false;
            runs_[job] = true;
        }
    }

    void backfill(const std::vector<std::size_t>& order, std::size_t head, long now) {
        const int need = jobs_[order[head]].gpus;
        long promised = now;
        int then = 0;
        for (then = free(); then < need;) {
            long next = -1;
            for (const std::size_t i : order)
                if (runs_[i] && now + left_[i] > promised && (next < 0 || now + left_[i] < next)) next = now + left_[i];
            promised = next;
            then = free();
            for (const std::size_t i : order) then += runs_[i] && now + left_[i] <= promised ? jobs_[i].gpus : 0;
        }
        int spare = then - need;
        for (std::size_t at = head + 1; at < order.size(); ++at) {
            const std::size_t i = order[at];
            if (runs_[i] || jobs_[i].gpus > free()) continue;
            const bool done = now + left_[i] <= promised;
            if (!done && jobs_[i].gpus > spare) continue;
            if (!done) spare -= jobs_[i].gpus;
            runs_[i] = true;
        }
    }

    const std::vector<TraceJob>& jobs_;
    int gpus_;
    std::string_view policy_;
    std::vector<long> left_, had_;
    std::vector<bool> runs_;
};

}  // namespace tpx::test
