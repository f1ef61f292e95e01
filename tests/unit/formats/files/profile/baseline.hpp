// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/model/run.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <span>
#include <utility>
#include <vector>

namespace tpx::test {

/// A baseline that any model of step times must beat: the logarithm of the time as a linear function of the logarithms
/// of batch, degrees and hosts, and of ZeRO, recomputation and offloading; least squares with a small ridge, because
/// nine runs do not determine all of them.
class LogLinear {
public:
    explicit LogLinear(std::span<const Run> runs) {
        Square a{};
        Row b{};
        for (const Run& run : runs) {
            const Row x = features(run);
            for (std::size_t i = 0; i < size; ++i) {
                b[i] += x[i] * std::log(run.seconds);
                for (std::size_t j = 0; j < size; ++j) a[i][j] += x[i] * x[j];
            }
        }
        constexpr double ridge = 1e-2;
        for (std::size_t i = 1; i < size; ++i) a[i][i] += ridge;
        a[0][0] += 1e-9;
        weights_ = solve(a, b);
    }

    double seconds(const Run& run) const {
        const Row x = features(run);
        double sum = 0;
        for (std::size_t i = 0; i < size; ++i) sum += x[i] * weights_[i];
        return std::exp(sum);
    }

    static constexpr std::size_t size = 9;
    using Row = std::array<double, size>;

    static Row features(const Run& run) {
        const auto hosts = static_cast<double>(run.allocation.gpus.size());
        return {1,
                std::log(run.batch),
                std::log(run.plan.dp),
                std::log(run.plan.tp),
                std::log(run.plan.pp),
                std::log(hosts),
                run.plan.zero > 0 ? 1.0 : 0.0,
                run.plan.recompute == Recompute::full ? 1.0 : 0.0,
                run.plan.offload ? 1.0 : 0.0};
    }

private:
    using Square = std::array<Row, size>;

    // Elimination; `a` is positive definite.
    static Row solve(Square a, Row b) {
        for (std::size_t i = 0; i < size; ++i)
            for (std::size_t k = i + 1; k < size; ++k) {
                const double factor = a[k][i] / a[i][i];
                for (std::size_t j = i; j < size; ++j) a[k][j] -= factor * a[i][j];
                b[k] -= factor * b[i];
            }
        for (std::size_t i = size; i-- > 0;) {
            for (std::size_t j = i + 1; j < size; ++j) b[i] -= a[i][j] * b[j];
            b[i] /= a[i][i];
        }
        return b;
    }

    Row weights_{};
};

/// The time of the measured run that is most like a run, by the logarithms of batch, degrees and hosts, and by ZeRO,
/// recomputation and offloading.
class NearestNeighbor {
public:
    explicit NearestNeighbor(std::span<const Run> runs) : runs_{runs.begin(), runs.end()} {}

    double seconds(const Run& run) const {
        return std::ranges::min_element(runs_, {}, [&](const Run& other) { return distance(run, other); })->seconds;
    }

private:
    static double distance(const Run& a, const Run& b) {
        const auto x = LogLinear::features(a), y = LogLinear::features(b);
        double sum = 0;
        for (std::size_t i = 0; i < x.size(); ++i) sum += (x[i] - y[i]) * (x[i] - y[i]);
        return sum;
    }

    std::vector<Run> runs_;
};

/// The longer of the time to compute and the time to exchange gradients at assumed rates, times the factor that fits
/// the measured runs best.
class Roofline {
public:
    Roofline(const ModelSize& model, const Parameters& rates, std::span<const Run> runs)
        : model_{model}, rates_{rates} {
        double sum = 0;
        for (const Run& run : runs) sum += std::log(run.seconds / bound(run));
        factor_ = std::exp(sum / static_cast<double>(runs.size()));
    }

    double seconds(const Run& run) const { return factor_ * bound(run); }

private:
    double bound(const Run& run) const {
        const double passes = run.plan.recompute == Recompute::full ? 4 : 3;  // one forward, two backward
        const double compute = passes * rates_.forward * run.batch / run.plan.gpus();
        const double nics = routes_of(run.plan, run.allocation).data_nics, members = run.plan.dp * run.plan.cp;
        const double bytes =
            model_.bytes * model_.parameters / (run.plan.tp * run.plan.pp) * 2 * (members - 1) / members;
        return std::max(compute, bytes / (nics > 0 ? nics * rates_.nic : rates_.intra));
    }

    ModelSize model_;
    Parameters rates_;
    double factor_ = 1;
};

}  // namespace tpx::test
