// SPDX-License-Identifier: Apache-2.0
#include "lib/cluster/max_min.hpp"

#include "lib/cluster/interior_point.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <tuple>
#include <utility>

namespace tpx {
namespace {

double mean_rate(const KindUse& job) {
    return std::accumulate(job.rates.begin(), job.rates.end(), 0.0) / static_cast<double>(job.rates.size());
}

double worth(const KindUse& job, std::size_t kind) {
    return job.gpus[kind] * job.rates[kind] / mean_rate(job) / job.weight;
}

constexpr std::size_t most_inside = 24;  // jobs that the interior method is quick enough for

// The program of max_min_program() with equations: variables are the least share, each job's share, the shares of time,
// and a slack for each row of "at most". Rows that bound a single share of time are left to the bound of 1.
EqualityProgram equality_program(std::span<const KindUse> jobs, std::span<const int> counts) {
    const std::size_t kinds = counts.size(), times = 1 + jobs.size(), variables = times + jobs.size() * kinds;
    std::vector<std::pair<std::vector<double>, double>> bounds;
    const auto at_most = [&](double limit) -> std::vector<double>& {
        return bounds.emplace_back(std::vector<double>(variables), limit).first;
    };
    for (std::size_t j = 0; j < jobs.size(); ++j) {
        std::vector<double>& row = at_most(0);
        row[0] = 1, row[1 + j] = -1;
    }
    for (std::size_t j = 0; j < jobs.size(); ++j)
        std::fill_n(at_most(1).begin() + std::ptrdiff_t(times + j * kinds), kinds, 1);
    for (std::size_t t = 0; t < kinds && jobs.size() > 1; ++t) {
        std::vector<double>& row = at_most(counts[t]);
        for (std::size_t j = 0; j < jobs.size(); ++j) row[times + j * kinds + t] = jobs[j].gpus[t];
    }
    for (std::size_t i = times; i < variables; ++i) at_most(1)[i] = 1;
    EqualityProgram program;
    program.cost.assign(variables + bounds.size(), 0);
    program.cost[0] = -1;
    const auto add = [&](const std::vector<double>& row, double limit) -> std::vector<double>& {
        program.limits.push_back(limit);
        std::vector<double>& added = program.rows.emplace_back(row);
        added.resize(variables + bounds.size());
        return added;
    };
    for (std::size_t i = 0; i < bounds.size(); ++i) add(bounds[i].first, bounds[i].second)[variables + i] = 1;
    for (std::size_t j = 0; j < jobs.size(); ++j) {
        std::vector<double>& row = add({}, 0);
        row[1 + j] = -1;
        for (std::size_t t = 0; t < kinds; ++t) row[times + j * kinds + t] = worth(jobs[j], t);
    }
    return program;
}

// A program without rows that maximizes the last of its variables.
LinearProgram maximizing_last(std::size_t variables) {
    LinearProgram program;
    program.gain.assign(variables, 0);
    program.gain.back() = 1;
    return program;
}

// Adds a row of zeros, which is valid until the next one is added.
std::vector<double>& add_row(LinearProgram& program, double limit) {
    program.limits.push_back(limit);
    return program.rows.emplace_back(program.gain.size());
}

}  // namespace

bool less_use(const KindUse& a, const KindUse& b) {
    return std::tie(a.weight, a.rates, a.gpus) < std::tie(b.weight, b.rates, b.gpus);
}

LinearProgram max_min_program(std::span<const KindUse> jobs, std::span<const int> counts) {
    const std::size_t kinds = counts.size(), columns = jobs.size() * kinds + 1;
    LinearProgram program = maximizing_last(columns);
    const auto add = [&](double limit) -> std::vector<double>& { return add_row(program, limit); };
    for (std::size_t j = 0; j < jobs.size(); ++j) {
        std::vector<double>& row = add(0);
        for (std::size_t t = 0; t < kinds; ++t) row[j * kinds + t] = -worth(jobs[j], t);
        row.back() = 1;
    }
    for (std::size_t j = 0; j < jobs.size(); ++j) {
        std::vector<double>& row = add(1);
        for (std::size_t t = 0; t < kinds; ++t) row[j * kinds + t] = 1;
    }
    for (std::size_t t = 0; t < kinds; ++t) {
        std::vector<double>& row = add(counts[t]);
        for (std::size_t j = 0; j < jobs.size(); ++j) row[j * kinds + t] = jobs[j].gpus[t];
    }
    return program;
}

namespace {

// Jobs of equal use.
struct UseClass {
    const KindUse* use;
    int jobs = 0;
    double level = -1;  // the worth of each job, once it is known to be the most that is fair
};

// What a lack of worth of a class whose level is known counts against the level of the others: more than any exchange.
constexpr double lack_price = 1e4;

// Maximizes the level of the classes whose own is not known, without taking from the others. Variables are the shares
// of time by class and kind, then the worths of classes with known levels, which these limit, and the level.
LinearProgram level_program(std::span<const UseClass> classes, std::span<const int> counts) {
    const std::size_t kinds = counts.size(), worths = classes.size() * kinds, columns = worths + classes.size() + 1;
    LinearProgram program = maximizing_last(columns);
    const auto add = [&](double limit) -> std::vector<double>& { return add_row(program, limit); };
    for (std::size_t c = 0; c < classes.size(); ++c) {
        const bool known = classes[c].level >= 0;
        std::vector<double>& row = add(0);
        for (std::size_t t = 0; t < kinds; ++t)
            if (classes[c].use->gpus[t] > 0) row[c * kinds + t] = -worth(*classes[c].use, t);
        row[known ? worths + c : columns - 1] = 1;
        if (known) program.gain[worths + c] = lack_price;
    }
    for (std::size_t c = 0; c < classes.size(); ++c) {
        std::vector<double>& row = add(1);
        for (std::size_t t = 0; t < kinds; ++t) row[c * kinds + t] = 1;
    }
    for (std::size_t c = 0; c < classes.size(); ++c) add(std::max(0.0, classes[c].level))[worths + c] = 1;
    for (std::size_t t = 0; t < kinds; ++t) {
        std::vector<double>& row = add(counts[t]);
        for (std::size_t c = 0; c < classes.size(); ++c) row[c * kinds + t] = classes[c].jobs * classes[c].use->gpus[t];
    }
    return program;
}

// Raises all levels together until some class can have no more, then those of the others. Rows with a price hold in
// every optimum, so their classes can have no more.
std::vector<double> level_all(std::vector<UseClass>& classes, std::span<const int> counts) {
    constexpr double priced = 1e-9;
    for (std::size_t open = classes.size();;) {
        LinearSolution solution = solve(level_program(classes, counts));
        const double level = solution.x.back();
        std::size_t left = 0;
        for (std::size_t c = 0; c < classes.size(); ++c) {
            if (classes[c].level >= 0) continue;
            if (solution.prices[c] > priced)
                classes[c].level = level;
            else
                ++left;
        }
        if (left == 0 || left == open) return std::move(solution.x);
        open = left;
    }
}

}  // namespace

std::vector<std::vector<double>> fair_class_shares(std::span<const KindUse> uses, std::span<const int> jobs,
                                                   std::span<const int> counts) {
    constexpr double rounding = 1e-9;
    const std::size_t kinds = counts.size();
    std::vector<UseClass> classes;
    for (std::size_t i = 0; i < uses.size(); ++i)
        if (jobs[i] > 0 && std::ranges::any_of(uses[i].gpus, [](int gpus) { return gpus > 0; }))
            classes.push_back({&uses[i], jobs[i]});
    std::ranges::sort(classes, [](const UseClass& a, const UseClass& b) { return less_use(*a.use, *b.use); });
    std::vector<std::vector<double>> shares(uses.size(), std::vector<double>(kinds));
    if (classes.empty()) return shares;
    const std::vector<double> found = level_all(classes, counts);
    for (std::size_t c = 0; c < classes.size(); ++c) {
        const auto i = static_cast<std::size_t>(classes[c].use - uses.data());
        for (std::size_t t = 0; t < kinds; ++t)
            if (uses[i].gpus[t] > 0 && found[c * kinds + t] > rounding) shares[i][t] = found[c * kinds + t];
    }
    return shares;
}

std::size_t UseClasses::add(KindUse use) {
    const auto [entry, is_new] = numbers_.try_emplace(std::move(use), uses_.size());
    if (is_new) uses_.push_back(entry->first);
    return entry->second;
}

std::vector<std::vector<double>> fair_time_shares(std::span<const KindUse> jobs, std::span<const int> counts) {
    UseClasses classes;
    std::vector<std::size_t> of_job;
    for (const KindUse& job : jobs) of_job.push_back(classes.add(job));
    std::vector<int> sizes(classes.uses().size());
    for (const std::size_t c : of_job) ++sizes[c];
    const std::vector<std::vector<double>> by_class = fair_class_shares(classes.uses(), sizes, counts);
    std::vector<std::vector<double>> shares;
    for (const std::size_t c : of_job) shares.push_back(by_class[c]);
    return shares;
}

std::vector<std::vector<double>> max_min_shares(std::span<const KindUse> jobs, std::span<const int> counts) {
    const std::size_t kinds = counts.size();
    std::vector<double> found;
    if (jobs.size() <= most_inside) found = interior_optimum(equality_program(jobs, counts));
    const bool is_inside = !found.empty();
    if (!is_inside) found = solve(max_min_program(jobs, counts)).x;
    const double* first = found.data() + (is_inside ? 1 + jobs.size() : 0);
    std::vector<std::vector<double>> shares(jobs.size(), std::vector<double>(kinds));
    for (std::size_t j = 0; j < jobs.size(); ++j)
        for (std::size_t t = 0; t < kinds; ++t)
            if (jobs[j].gpus[t] > 0) shares[j][t] = std::round(first[j * kinds + t] * 1e5) / 1e5;
    return shares;
}

}  // namespace tpx
