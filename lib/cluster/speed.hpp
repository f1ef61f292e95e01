// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/cluster/job.hpp"

#include <map>
#include <utility>

namespace tpx {

class GpuPool;

/// With `g` GPUs, (g / asked)^exponent: exactly 1 with as many as the job asks for.
class PowerSpeed final : public Speed {
public:
    PowerSpeed(int asked, double exponent) : asked_{asked}, exponent_{exponent} {}
    double exponent() const { return exponent_; }
    bool accepts_any_gpu_count() const override { return true; }
    double rate(const Grant& grant, const Cluster& cluster) const override;
    double rate_anywhere(int gpus) const override;

private:
    int asked_;
    double exponent_;
};

/// Measured rates by kind and number of GPUs. Numbers in between are on straight lines; fewer than the fewest cannot
/// run, more than the most are of no use. Where a grant has several kinds whose rate together is not there, the slowest
/// counts for all its GPUs.
class TableSpeed final : public Speed {
public:
    /// `kind` may be `any`: of kinds that have no rates of their own. False, and nothing is added, where the rate of so
    /// many GPUs is known already.
    bool add(int kind, int gpus, double rate) { return rates_[kind].try_emplace(gpus, rate).second; }
    /// Rates of several kinds together, with as many GPUs of each as the clusters that it is used with have kinds.
    /// False, and nothing is added, where the rate of so many of each is known already.
    bool add(Mix mix);
    double rate(const Grant& grant, const Cluster& cluster) const override;
    std::span<const Mix> mixes() const override { return mixes_; }
    /// As many as it asks for; where there is no rate for so few, the fewest that have one.
    std::pair<int, double> on_kind(int kind, int asked) const override;
    /// The rate of `gpus` GPUs of one kind.
    double rate(int kind, int gpus) const;

private:
    std::map<int, std::map<int, double>> rates_;
    std::vector<Mix> mixes_;
};

/// Finds out on which kinds the job can run with as many GPUs as it asks for, and on which fastest.
void find_kinds(TraceJob& job, const Cluster& cluster);

/// The fastest that `job` can be with as many GPUs as it asks for, packed on hosts of one kind that it may have; 0
/// where it cannot run so. What is free does not matter.
double full_rate(const TraceJob& job, const Cluster& cluster);
/// The same, where `empty` is the pool of the whole cluster, which takes long to make for many jobs.
double full_rate(const TraceJob& job, const Cluster& cluster, const GpuPool& empty);

}  // namespace tpx
