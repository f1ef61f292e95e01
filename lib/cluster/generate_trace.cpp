// SPDX-License-Identifier: Apache-2.0
#include "lib/cluster/generate_trace.hpp"

#include "lib/cluster/random.hpp"
#include "lib/cluster/speed.hpp"
#include "lib/core/counted.hpp"
#include "lib/core/error.hpp"

#include <array>
#include <cmath>
#include <span>

namespace tpx {
namespace {

struct Choice {
    int gpus;
    double jobs;  // of Philly's that ask for so many
};
constexpr std::array philly_gpus{Choice{1, 76627}, Choice{2, 1818}, Choice{4, 1870}, Choice{8, 1643},
                                 Choice{16, 199},  Choice{32, 67},  Choice{64, 6},   Choice{128, 3}};

// Durations in seconds below which there are so many of Philly's jobs with 1, 2 to 4, and more GPUs.
struct Quantile {
    double share;
    std::array<double, 3> seconds;
};
constexpr std::array philly_durations{Quantile{0, {1, 2, 1}},
                                      Quantile{0.1, {62, 15, 199}},
                                      Quantile{0.2, {76, 19, 638}},
                                      Quantile{0.3, {215, 25, 3366}},
                                      Quantile{0.4, {600, 85, 11460}},
                                      Quantile{0.5, {1117, 367, 23652}},
                                      Quantile{0.6, {1728, 5581, 58954}},
                                      Quantile{0.7, {2464, 25432, 129382}},
                                      Quantile{0.8, {3754, 79264, 195577}},
                                      Quantile{0.9, {8512, 166199, 340658}},
                                      Quantile{0.95, {19137, 233725, 511238}},
                                      Quantile{0.98, {68259, 467815, 790141}},
                                      Quantile{0.99, {135404, 748678, 1066894}},
                                      Quantile{0.995, {266986, 1127338, 1961780}},
                                      Quantile{0.999, {868927, 2416865, 2658784}},
                                      Quantile{1, {3256045, 2750674, 4628226}}};

// On straight lines between the logarithms.
double philly_duration(int gpus, double share) {
    const std::size_t group = gpus == 1 ? 0 : gpus <= 4 ? 1 : 2;
    std::size_t next = 1;
    while (philly_durations[next].share < share) ++next;
    const Quantile &below = philly_durations[next - 1], &above = philly_durations[next];
    const double way = (share - below.share) / (above.share - below.share);
    return std::exp(std::lerp(std::log(below.seconds[group]), std::log(above.seconds[group]), way));
}

int pick(std::span<const Choice> choices, double share) {
    double all = 0;
    for (const Choice& choice : choices) all += choice.jobs;
    double left = share * all;
    for (const Choice& choice : choices) {
        if (left < choice.jobs) return choice.gpus;
        left -= choice.jobs;
    }
    return choices.back().gpus;
}

std::vector<Choice> choices_of(const TraceRecipe& recipe, int most) {
    std::vector<Choice> choices;
    if (recipe.gpus.empty()) choices.assign(philly_gpus.begin(), philly_gpus.end());
    for (const int gpus : recipe.gpus) choices.push_back({gpus, 1});
    std::erase_if(choices, [&](const Choice& choice) { return choice.gpus > most; });
    if (choices.empty()) throw Error{Exit::usage, "no random job fits on {}", counted(std::uint64_t(most), "GPU")};
    return choices;
}

}  // namespace

std::vector<TraceJob> generate_trace(const TraceRecipe& recipe, const Cluster& cluster) {
    Random arrivals{recipe.seed}, sizes{recipe.seed ^ 0x5851f42d4c957f2d}, durations{recipe.seed ^ 0x14057b7ef767814f};
    int most = 0;  // a job runs on one kind
    for (int kind = 0; kind < static_cast<int>(cluster.kinds.size()); ++kind) most = std::max(most, cluster.gpus(kind));
    const std::vector<Choice> choices = choices_of(recipe, most);
    std::vector<TraceJob> jobs;
    Time now = 0;
    for (int i = 0; i < recipe.jobs; ++i) {
        TraceJob job;
        job.name = fmt::format("random-{}", i);
        job.line = static_cast<std::size_t>(i) + 1;
        job.arrival = now += time_of(arrivals.exponential(3600 / recipe.hourly));
        job.gpus = job.least = job.most = pick(choices, sizes.unit());
        const auto priority = static_cast<std::size_t>(sizes.unit() * static_cast<double>(recipe.priorities.size()));
        job.priority = recipe.priorities[priority];
        const double seconds = recipe.mean_duration ? durations.exponential(*recipe.mean_duration)
                                                    : philly_duration(job.gpus, durations.unit());
        job.work = static_cast<double>(std::max(Time{1}, time_of(seconds)));
        job.speed = std::make_shared<PowerSpeed>(job.gpus, 1);
        jobs.push_back(std::move(job));
    }
    return jobs;
}

}  // namespace tpx
