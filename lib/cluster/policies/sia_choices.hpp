// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace tpx {

/// The choices that Sia has for one job, and their costs. Choice 0 is no GPUs; choice i is configuration i - 1.
class SiaChoices {
public:
    struct Configuration {
        int gpus;
        double speed;  ///< in units of the slowest configuration
        double cost;   ///< speed^-0.5; if the job does not run or already holds `gpus`
    };

    /// At least one configuration, with increasing numbers of GPUs.
    explicit SiaChoices(std::vector<Configuration> configurations);

    /// Records that the job holds `gpus` GPUs, and that a change keeps the share `kept` of its progress.
    void hold(int gpus, double kept);
    int held() const { return held_; }
    /// Whether all costs stay the same while the job holds the same number of GPUs.
    bool constant() const { return held_ == 0 || (all_.size() == 1 && all_[0].gpus == held_); }

    int count() const { return static_cast<int>(all_.size()) + 1; }
    int gpus(int choice) const { return choice == 0 ? 0 : all_[static_cast<std::size_t>(choice - 1)].gpus; }
    /// The cost of a choice; of a configuration that changes the GPUs of the job, (speed * kept)^-0.5.
    double cost(int choice) const;

    /// The choice with the least sum of its cost and `price` for each GPU (the first one of equal sums), that sum, and
    /// the least sum of the other choices. The relative error of sums is at most 1e-14.
    struct Best {
        double price = -1;
        int choice = 0;
        double sum = 0;
        double other = 0;
    };
    const Best& best(double price);
    /// The sum of a choice's cost and `price` for each of its GPUs.
    double sum(int choice, double price) const;

private:
    std::vector<Configuration> all_;
    int held_ = -1;
    double kept_ = 1;
    double factor_ = 1;  // kept^-0.5
    Best best_;
};

/// Finds the choices of all jobs with the least sum of costs.
class SiaProgram {
public:
    /// Sets `chosen` to the choice of each job; together they have at most `gpus` GPUs. Costs are added job by job, as
    /// doubles; of solutions with equal sums, the one with the lowest choice of the last job is taken, then of the job
    /// before it, and so on. `ids` are the numbers of the jobs, by which the next call recognizes them.
    void solve(std::span<SiaChoices* const> jobs, std::span<const int> ids, int gpus, std::vector<int>& chosen);

private:
    // A choice that may be the best, with its exact cost.
    struct Candidate {
        int gpus;
        double cost;
        bool operator==(const Candidate&) const = default;
    };

    // The least costs of the jobs up to this one, with at most `from`, ..., `to` GPUs; more GPUs do not lower the cost.
    struct Row {
        int id = -1;
        int first = 0;  // of the candidates
        std::vector<Candidate> candidates;
        int from = 0;
        int to = 0;
        std::vector<double> least;

        double at(int gpus) const;
    };

    struct Range {
        int first, last;  // candidates
        int from, to;     // numbers of GPUs for which the row needs costs
    };

    // The lower bound of the least sum as a function of the price, with fixed choices.
    struct Line {
        double sum;    // of the costs of the choices
        double slope;  // their GPUs minus the available GPUs
        double at(double price) const { return sum + price * slope; }
    };

    Line evaluate(double price);
    double find_price();
    double gap(double price, int left) const;
    void find_ranges(double price, double gap);
    bool holds(std::size_t i) const;
    void compute(std::size_t i);
    static int add_candidate(const Row& before, const Candidate& choice, int known, Row& row);
    void choose(std::vector<int>& chosen) const;

    std::span<SiaChoices* const> jobs_;
    std::span<const int> ids_;
    int gpus_ = 0;
    double price_ = 0;  // of a GPU in the last call
    std::vector<Range> ranges_;
    std::vector<Row> rows_;
    std::size_t known_rows_ = 0;
    int row_gpus_ = 0;
};

}  // namespace tpx
