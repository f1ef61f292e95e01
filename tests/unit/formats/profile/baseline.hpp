// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/model/run.hpp"

#include <array>
#include <cmath>
#include <span>
#include <utility>

namespace tpx::test {

/// What any model of step times has to be better than: the logarithm of the time as a linear function of the logarithms
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

private:
    static constexpr std::size_t size = 9;
    using Row = std::array<double, size>;
    using Square = std::array<Row, size>;

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

}  // namespace tpx::test
