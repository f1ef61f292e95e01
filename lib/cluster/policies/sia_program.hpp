// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace tpx {

/// A cost in whole units, so that sums are exact.
using SiaCost = std::int64_t;

/// A number of GPUs that a job can get, and what that costs.
struct SiaChoice {
    int gpus = 0;
    SiaCost cost = 0;
};

/// `count` jobs with the same choices.
struct SiaGroup {
    std::span<const SiaChoice> choices;  ///< in increasing order of GPUs; the first choice is 0 GPUs
    int count = 1;
};

/// How many jobs of a group get a choice.
struct SiaShare {
    int choice = 0;
    int count = 0;
};

/// Finds the choices of all jobs with the least sum of costs.
class SiaProgram {
public:
    /// Returns for each of `groups` how many of its jobs get which choice; together they have at most `gpus` GPUs, and
    /// no other choices have a lower sum of costs. The search begins with the price of a GPU that the last call found.
    const std::vector<std::vector<SiaShare>>& solve(std::span<const SiaGroup> groups, int gpus);

private:
    // The cost of the choices of least cost of all groups at some price, and the number of their GPUs.
    struct Bound {
        SiaCost cost = 0;
        std::int64_t least = 0;  // GPUs if ties go to the choices with the fewest; `cost` is that of these choices
        std::int64_t most = 0;   // GPUs if ties go to the choices with the most
    };

    // A choice other than that of least cost for up to `count` jobs of a group.
    struct Move {
        std::size_t group;
        int choice;
        int gpus;      // more than the choice of least cost has; below 0: fewer
        SiaCost loss;  // how much more it costs, including the price of its GPUs; at least 0
        int count;
    };

    // Moves of which at most `count` are made, all in the same group.
    struct Stage {
        std::vector<Move> moves;
        int count = 1;
        std::int64_t fewest = 0, most = 0;  // GPUs that the moves can add
    };

    // The least losses of all stages up to one, by the number of GPUs that they add, from `from` on.
    struct Row {
        std::int64_t from = 0;
        std::vector<SiaCost> loss;

        SiaCost at(std::int64_t gpus) const;
    };

    Bound evaluate(SiaCost price) const;
    SiaCost find_price() const;
    void choose_best(SiaCost price);
    std::vector<Move> moves_within(SiaCost limit) const;
    SiaCost fill(int left);
    void improve(SiaCost gap, int left);
    std::vector<Stage> stages_within(SiaCost limit) const;
    std::vector<Row> rows_of(const std::vector<Stage>& stages, SiaCost limit, std::int64_t least, int left) const;
    void apply(const std::vector<Stage>& stages, const std::vector<Row>& rows, std::int64_t gpus);
    void apply(const Move& move, int count);

    std::span<const SiaGroup> groups_;
    int gpus_ = 0;
    SiaCost price_ = 0;
    std::vector<int> best_;  // choice of least cost of each group
    std::vector<std::vector<SiaShare>> shares_;
};

}  // namespace tpx
