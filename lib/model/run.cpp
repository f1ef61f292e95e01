// SPDX-License-Identifier: Apache-2.0
#include "lib/model/run.hpp"

#include <cmath>

namespace tpx {

double predicted_seconds(const Parameters& parameters, const ModelSize& model, const Run& run) {
    const Routes routes = routes_of(run.plan, run.allocation);
    return step_time(parameters, model, run.batch, run.plan, routes, run.allocation.cpus).total();
}

Vector slope_of(const Vector& logarithms, const ModelSize& model, const Run& run) {
    constexpr double step = 1e-5;
    const Routes routes = routes_of(run.plan, run.allocation);
    const auto log_time = [&](const Vector& at) {
        const Parameters is = from_logarithms(at);
        return std::log(step_time(is, model, run.batch, run.plan, routes, run.allocation.cpus).total());
    };
    const double here = log_time(logarithms);
    Vector slope{};
    for (int i = 0; i < parameter_count; ++i) {
        Vector moved = logarithms;
        moved[i] += step;
        slope[i] = (log_time(moved) - here) / step;
    }
    return slope;
}

}  // namespace tpx
