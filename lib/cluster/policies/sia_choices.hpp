// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace tpx {

/// What Sia may give one job, and what each choice costs. Choice 0 is no GPUs; choice i is configuration i - 1.
class SiaChoices {
public:
    struct Configuration {
        int gpus;
        double speed;  ///< in units of the slowest configuration
        double cost;   ///< of a job that does not run, or holds as many GPUs
    };

    /// At least one configuration, with increasing numbers of GPUs.
    explicit SiaChoices(std::vector<Configuration> configurations);

    /// The job holds `gpus` GPUs, and a change leaves this share of its progress.
    void hold(int gpus, double kept);
    int held() const { return held_; }
    /// Whether costs stay the same while it holds as many GPUs.
    bool constant() const { return held_ == 0 || (all_.size() == 1 && all_[0].gpus == held_); }

    int count() const { return static_cast<int>(all_.size()) + 1; }
    int gpus(int choice) const { return choice == 0 ? 0 : all_[static_cast<std::size_t>(choice - 1)].gpus; }
    /// The cost of a choice: (speed kept)^-0.5 of a configuration.
    double cost(int choice) const;

    /// The choice with the least cost if each GPU costs `price` more, the first of several, and that sum; also the
    /// least sum of the other choices. Rounding may add a part in 10^14.
    struct Best {
        double price = -1;
        int choice = 0;
        double sum = 0;
        double other = 0;
    };
    const Best& best(double price);
    /// The sum of one choice.
    double sum(int choice, double price) const;

private:
    std::vector<Configuration> all_;
    int held_ = -1;
    double kept_ = 1;
    double factor_ = 1;  // kept^-0.5
    Best best_;
};

/// Finds the choices of jobs with the least sum of costs.
class SiaProgram {
public:
    /// Sets `chosen` to the choice of each job; together they have at most `gpus` GPUs. Sums are made job by job, as
    /// doubles; of choices with equal sums, the last jobs have those with the lowest numbers. `ids` are the numbers of
    /// the jobs, by which it recognizes them in the next call.
    void solve(std::span<SiaChoices* const> jobs, std::span<const int> ids, int gpus, std::vector<int>& chosen);

private:
    // A choice that may be the best, with its exact cost.
    struct Candidate {
        int gpus;
        double cost;
        bool operator==(const Candidate&) const = default;
    };

    // The least costs of the first jobs, up to this one, with at most `from` to `to` GPUs; more GPUs are of no use.
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
        int from, to;     // GPUs for which the row is asked
    };

    struct Line {
        double sum;    // of costs
        double slope;  // GPUs that are used beyond those that there are
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
