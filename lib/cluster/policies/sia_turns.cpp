// SPDX-License-Identifier: Apache-2.0
#include "lib/cluster/policies/sia_turns.hpp"

#include <algorithm>
#include <functional>
#include <limits>
#include <map>
#include <queue>

namespace tpx {
namespace {

using MinHeap = std::priority_queue<int, std::vector<int>, std::greater<>>;

constexpr int no_job = std::numeric_limits<int>::max();

class Turns {
public:
    explicit Turns(std::span<const SiaTurn> groups) : groups_{groups} {
        for (std::size_t group = 0; group < groups.size(); ++group) add(group);
    }

    // Lets jobs that came first take the turns of others. Returns whether one has.
    bool exchange() {
        bool has_changed = false;
        for (auto& [choice, starts] : starts_) {
            std::vector<std::size_t> able;
            for (std::size_t group = 0; group < groups_.size(); ++group)
                if (has(group, choice)) able.push_back(group);
            while (true) {
                const auto [last, from] = starts.top();
                const std::size_t to =
                    *std::ranges::min_element(able, {}, [&](std::size_t group) { return first(group); });
                if (first(to) >= last) break;
                starts.pop();
                starts.emplace(take_first(to), to);
                left_[from].returned.push(last);
                has_changed = true;
            }
        }
        return has_changed;
    }

    std::vector<SiaWish> wishes() {
        std::vector<SiaWish> all;
        for (auto& [choice, starts] : starts_)
            for (; !starts.empty(); starts.pop()) all.push_back({starts.top().first, choice.first});
        return all;
    }

private:
    using Choice = std::pair<int, SiaCost>;     // GPUs and cost
    using Start = std::pair<int, std::size_t>;  // job and group

    // The jobs of a group that do not start.
    struct Left {
        std::size_t next = 0;  // the first job that has had no turn
        MinHeap returned;      // those that have lost their turn
    };

    void add(std::size_t group) {
        const SiaTurn& turn = groups_[group];
        std::vector<SiaShare> shares{turn.shares.begin(), turn.shares.end()};
        std::ranges::sort(shares, std::greater{}, &SiaShare::choice);
        Left& left = left_.emplace_back();
        for (const SiaShare& share : shares) {
            const SiaChoice& choice = turn.choices[static_cast<std::size_t>(share.choice)];
            for (int i = 0; choice.gpus > 0 && i < share.count; ++i)
                starts_[{choice.gpus, choice.cost}].emplace(turn.ids[left.next++], group);
        }
    }

    bool has(std::size_t group, const Choice& choice) const {
        return std::ranges::any_of(groups_[group].choices, [&](const SiaChoice& is) {
            return Choice{is.gpus, is.cost} == choice;
        });
    }

    // Of the jobs of the group that do not start, the one that came first.
    int first(std::size_t group) const {
        const Left& left = left_[group];
        const int next = left.next < groups_[group].ids.size() ? groups_[group].ids[left.next] : no_job;
        return left.returned.empty() ? next : std::min(next, left.returned.top());
    }

    int take_first(std::size_t group) {
        Left& left = left_[group];
        const int id = first(group);
        if (!left.returned.empty() && left.returned.top() == id)
            left.returned.pop();
        else
            ++left.next;
        return id;
    }

    std::span<const SiaTurn> groups_;
    std::vector<Left> left_;  // of each group
    std::map<Choice, std::priority_queue<Start>> starts_;
};

}  // namespace

std::vector<SiaWish> sia_turns(std::span<const SiaTurn> groups) {
    Turns turns{groups};
    while (turns.exchange()) {
    }
    return turns.wishes();
}

}  // namespace tpx
