// SPDX-License-Identifier: Apache-2.0
#include "lib/cluster/max_min.hpp"

#include <numeric>

namespace tpx {
namespace {

double mean_rate(const KindUse& job) {
    return std::accumulate(job.rates.begin(), job.rates.end(), 0.0) / static_cast<double>(job.rates.size());
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
        for (std::size_t t = 0; t < kinds; ++t)
            row[j * kinds + t] = -jobs[j].gpus[t] * jobs[j].rates[t] / mean_rate(jobs[j]) / jobs[j].weight;
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
    const LinearSolution solution = solve(max_min_program(jobs, counts));
    std::vector<std::vector<double>> shares(jobs.size(), std::vector<double>(counts.size()));
    for (std::size_t j = 0; j < jobs.size(); ++j)
        for (std::size_t t = 0; t < counts.size(); ++t)
            if (jobs[j].gpus[t] > 0) shares[j][t] = solution.x[j * counts.size() + t];
    return shares;
}

}  // namespace tpx
