// SPDX-License-Identifier: Apache-2.0
#include "cmd/profile/implausible_times.hpp"

#include "lib/core/counted.hpp"
#include "lib/core/lower_case.hpp"

#include <algorithm>
#include <vector>

namespace tpx::cli {
namespace {

// Dense flop/s in 16 bits of a GPU whose name contains `name`; what contains another name comes first.
struct GpuPeak {
    std::string_view name;
    double flops;
};
constexpr GpuPeak gpu_peaks[] = {
    {"b300", 2500e12}, {"b200", 2500e12}, {"h200", 989e12},   {"h100", 989e12},  {"h800", 989e12}, {"h20", 148e12},
    {"a100", 312e12},  {"a800", 312e12},  {"a10g", 125e12},   {"a10", 125e12},   {"a30", 165e12},  {"a40", 150e12},
    {"l40", 362e12},   {"l4", 121e12},    {"v100", 125e12},   {"p100", 21e12},   {"k80", 8.7e12},  {"4090", 330e12},
    {"3090", 142e12},  {"2080", 108e12},  {"mi300", 1307e12}, {"mi250", 383e12}, {"t4", 65e12},
};

// Of the fastest GPU, and of one that is not slow.
constexpr GpuPeak any_gpu{"", 2500e12};
constexpr double usual_flops = 100e12;

constexpr double eight_bits = 2;  // times as many flop/s as with 16 bits
constexpr double least_share = 1e-3;

const GpuPeak& peak_of(std::string_view gpu) {
    const std::string name = lower_case(gpu);
    for (const GpuPeak& peak : gpu_peaks)
        if (name.find(peak.name) != name.npos) return peak;
    return any_gpu;
}

// Of forward and backward pass of one GPU; recomputation is not counted.
double flops_of(const ModelSize& model, const Run& run) {
    return 6 * model.active() * model.sequence * run.batch / run.seconds / run.allocation.total();
}

}  // namespace

std::optional<std::string> implausible_times(const ModelSize& model, std::span<const Run> runs, std::string_view gpu) {
    if (runs.empty() || model.sequence <= 1) return std::nullopt;
    const GpuPeak& peak = peak_of(gpu);
    const double most = eight_bits * peak.flops;
    const double least = least_share * (peak.name.empty() ? usual_flops : peak.flops);
    std::vector<double> flops;
    for (const Run& run : runs) flops.push_back(flops_of(model, run));
    const auto above = static_cast<std::size_t>(std::ranges::count_if(flops, [&](double one) { return one > most; }));
    const auto below = static_cast<std::size_t>(std::ranges::count_if(flops, [&](double one) { return one < least; }));
    const bool is_fast = above > 0, is_slow = 2 * below > runs.size();
    if (!is_fast && !is_slow) return std::nullopt;
    const double example = is_fast ? std::ranges::max(flops) : std::ranges::min(flops);
    const std::string bound = peak.name.empty() ? "of any GPU" : fmt::format("of {}", gpu);
    return fmt::format(
        "the times of {} of {} imply {:.3g} Tflop/s per GPU, {} {}; are they in {} (a --columns file can say so: "
        "seconds = {{column = \"NAME\", unit = \"{}\"}}), and are the model's sizes and batch right?",
        is_fast ? above : below, counted(runs.size(), "run"), example / 1e12,
        is_fast ? fmt::format("more than the {:.3g} Tflop/s", most / 1e12)
                : fmt::format("less than 0.1 % of the {:.3g} Tflop/s", least / least_share / 1e12),
        is_slow && peak.name.empty() ? "of a usual GPU" : bound, is_fast ? "seconds" : "milliseconds",
        is_fast ? "s" : "ms");
}

}  // namespace tpx::cli
