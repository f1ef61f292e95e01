// SPDX-License-Identifier: Apache-2.0
#include "lib/cluster/speed.hpp"

#include "lib/cluster/gpu_pool.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>

namespace tpx {

double PowerSpeed::rate(const Grant& grant, const Cluster&) const { return rate_anywhere(grant.gpus()); }

double PowerSpeed::rate_anywhere(int gpus) const {
    return gpus == asked_ ? 1 : std::pow(static_cast<double>(gpus) / asked_, exponent_);
}

double TableSpeed::rate(int kind, int gpus) const {
    auto table = rates_.find(kind);
    if (table == rates_.end()) table = rates_.find(any);
    if (table == rates_.end() || table->second.empty()) return 0;
    const std::map<int, double>& points = table->second;
    const auto above = points.lower_bound(gpus);
    if (above == points.end()) return points.rbegin()->second;
    if (above->first == gpus) return above->second;
    if (above == points.begin()) return 0;
    const auto below = std::prev(above);
    const double way = static_cast<double>(gpus - below->first) / (above->first - below->first);
    return below->second + way * (above->second - below->second);
}

bool TableSpeed::add(Mix mix) {
    if (std::ranges::find(mixes_, mix.gpus, &Mix::gpus) != mixes_.end()) return false;
    mixes_.push_back(std::move(mix));
    return true;
}

std::pair<int, double> TableSpeed::on_kind(int kind, int asked) const {
    auto table = rates_.find(kind);
    if (table == rates_.end()) table = rates_.find(any);
    if (table == rates_.end() || table->second.empty()) return {0, 0};
    const int gpus = std::max(asked, table->second.begin()->first);
    return {gpus, rate(kind, gpus)};
}

double TableSpeed::rate(const Grant& grant, const Cluster& cluster) const {
    if (!mixes_.empty()) {
        std::vector<int> by_kind(cluster.kinds.size());
        for (const GpuShare& part : grant.parts) by_kind[cluster.hosts[part.host].kind] += part.gpus;
        if (const auto mix = std::ranges::find(mixes_, by_kind, &Mix::gpus); mix != mixes_.end()) return mix->rate;
    }
    const int gpus = grant.gpus();
    double slowest = rate(cluster.hosts[grant.parts[0].host].kind, gpus);
    for (const GpuShare& part : grant.parts) slowest = std::min(slowest, rate(cluster.hosts[part.host].kind, gpus));
    return slowest;
}

void find_kinds(TraceJob& job, const Cluster& cluster) {
    job.kinds.clear();
    if (cluster.kinds.size() == 1) return;
    const GpuPool empty{cluster};
    std::vector<double> rates(cluster.kinds.size());
    for (int kind = 0; kind < static_cast<int>(rates.size()); ++kind) {
        TraceJob here = job;
        here.kind = kind;
        const auto grant = empty.place(here, job.gpus);
        if (!grant) continue;
        rates[kind] = job.speed->rate(*grant, cluster);
        if (rates[kind] > 0) job.kinds.push_back(kind);
    }
    std::ranges::stable_sort(job.kinds, std::greater{}, [&](int kind) { return rates[kind]; });
}

double full_rate(const TraceJob& job, const Cluster& cluster) { return full_rate(job, cluster, GpuPool{cluster}); }

double full_rate(const TraceJob& job, const Cluster& cluster, const GpuPool& empty) {
    double best = 0;
    for (int kind = 0; kind < static_cast<int>(cluster.kinds.size()); ++kind) {
        if (job.kind != any && job.kind != kind) continue;
        TraceJob here = job;
        here.kind = kind;
        if (const auto grant = empty.place(here, job.gpus)) best = std::max(best, job.speed->rate(*grant, cluster));
    }
    return best;
}

}  // namespace tpx
