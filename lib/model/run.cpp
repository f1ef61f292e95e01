// SPDX-License-Identifier: Apache-2.0
#include "lib/model/run.hpp"

#include <fmt/format.h>

#include <map>
#include <utility>

namespace tpx {

std::vector<std::size_t> configurations(std::span<const Run> runs) {
    std::map<std::pair<std::string, std::vector<int>>, std::size_t> known;
    std::vector<std::size_t> result;
    for (std::size_t i = 0; i < runs.size(); ++i) {
        const Run& run = runs[i];
        std::string words = fmt::format("{} {} {} {}", to_string(run.plan), run.batch, run.allocation.cpus,
                                        run.allocation.gpus_per_nic);
        result.push_back(known.try_emplace({std::move(words), run.allocation.gpus}, i).first->second);
    }
    return result;
}

std::size_t count_configurations(std::span<const Run> runs) {
    std::size_t count = 0, place = 0;
    for (const std::size_t first : configurations(runs)) count += first == place++;
    return count;
}

double predicted_seconds(const Parameters& parameters, const ModelSize& model, const Run& run) {
    const Routes routes = routes_of(run.plan, run.allocation);
    return step_time(parameters, model, run.batch, run.plan, routes, run.allocation.cpus).total();
}

Vector slope_of(const Vector& logarithms, const ModelSize& model, const Run& run) {
    return slope_of(from_logarithms(logarithms), model, run, routes_of(run.plan, run.allocation));
}

Vector slope_of(const Parameters& parameters, const ModelSize& model, const Run& run, const Routes& routes) {
    constexpr double step = 1e-5;
    const auto seconds = [&](const Parameters& is) {
        return step_time(is, model, run.batch, run.plan, routes, run.allocation.cpus).total();
    };
    const double here = seconds(parameters);
    Vector slope{};
    for (int i = 0; i < parameter_count; ++i) {
        const ParameterInfo& info = parameter_infos()[i];
        Parameters moved = parameters;
        moved.*info.value += (parameters.*info.value - info.least) * step;
        slope[i] = (seconds(moved) / here - 1) / step;
    }
    return slope;
}

}  // namespace tpx
