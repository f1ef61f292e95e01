// SPDX-License-Identifier: Apache-2.0
#include "lib/cluster/max_min.hpp"

#include "lib/cluster/interior_point.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
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

}  // namespace

LinearProgram max_min_program(std::span<const KindUse> jobs, std::span<const int> counts) {
    const std::size_t kinds = counts.size(), columns = jobs.size() * kinds + 1;
    LinearProgram program;
    program.gain.assign(columns, 0);
    program.gain.back() = 1;
    const auto add = [&](double limit) -> std::vector<double>& {
        program.limits.push_back(limit);
        return program.rows.emplace_back(columns);
    };
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
