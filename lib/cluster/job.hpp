// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/cluster/cluster.hpp"
#include "lib/cluster/time.hpp"

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tpx {

/// GPUs of one host.
struct GpuShare {
    int host = 0;
    int gpus = 0;

    friend bool operator==(const GpuShare&, const GpuShare&) = default;
};

/// What a job holds.
struct Grant {
    std::vector<GpuShare> parts;  ///< each host once, in order of hosts
    int plan = 0;                 ///< which of its execution plans the job uses, for policies that choose one

    int gpus() const;
    friend bool operator==(const Grant&, const Grant&) = default;
};

struct JobModel;

/// GPUs of several kinds that a job can use together, and how fast.
struct Mix {
    std::vector<int> gpus;  ///< of each kind
    double rate = 0;
};

/// How fast a job trains with what it holds.
class Speed {
public:
    virtual ~Speed() = default;
    /// Units of work a second on `grant` of `cluster`, which is not empty; 0 where the job cannot run so.
    virtual double rate(const Grant& grant, const Cluster& cluster) const = 0;
    /// True where every number of GPUs will do.
    virtual bool accepts_any_gpu_count() const { return false; }
    /// The fastest plan on the GPUs of `grant`, of those that differ from the job's own only in data parallelism where
    /// `own_kind`; 0, the job's own, where there is no choice.
    virtual int best_plan(const Grant& /*grant*/, const Cluster& /*cluster*/, bool /*own_kind*/) const { return 0; }
    /// How many GPUs of one kind a job uses that asks for `asked`, and its rate there; 0 where it cannot run.
    virtual std::pair<int, double> on_kind(int /*kind*/, int asked) const { return {asked, 1}; }
    /// What it can do with several kinds at once.
    virtual std::span<const Mix> mixes() const { return {}; }
    /// True for a job that data parallelism alone is used for.
    virtual bool data_parallel() const { return true; }
    /// The name of a plan other than the job's own; empty for plan 0 and where plans have no names.
    virtual std::string_view plan_name(int /*plan*/) const { return {}; }
    /// The rate with `gpus` GPUs, if it is the same on all GPUs; 0 if it is not, or unknown.
    virtual double rate_anywhere(int /*gpus*/) const { return 0; }
    /// What jobs with the same rates share; null where this one is alone.
    virtual const void* family() const { return nullptr; }
    /// The plan that a job with `grant` trains under now. Later corrections of predictions do not change it.
    virtual int plan_number(const Grant& grant) const { return grant.plan; }
    /// The same plans, with the same numbers, with `cpus` cores for each GPU; null if rates do not depend on cores.
    /// `believed` is what policies know then, if that differs.
    virtual std::shared_ptr<const Speed> with_cpus(double /*cpus*/,
                                                   const std::shared_ptr<const Speed>& /*believed*/) const {
        return nullptr;
    }
    /// Corrects predictions: `grant` was measured to reach `rate`. Returns whether rates may have changed. Jobs that
    /// share a model learn from each other.
    virtual bool observe(const Grant& /*grant*/, double /*rate*/) const { return false; }
};

/// One job of a trace.
struct TraceJob {
    std::string name;
    Time arrival = 0;
    int gpus = 1;             ///< that it asks for
    int least = 1;            ///< a running job never has fewer, whatever the policy
    int most = 1;             ///< nor more
    bool own_limits = false;  ///< the trace or the user set `least` and `most`; else they follow from the rates alone
    int kind = any;           ///< of GPU
    std::vector<int> kinds;   ///< those on which it can run with what it asks for, fastest first; empty: all alike
    double work = 0;          ///< in millionths of the unit of `speed`: microseconds where the rate is 1
    std::shared_ptr<const Speed> speed;  ///< which policies know
    std::shared_ptr<const Speed> truth;  ///< at which the job really trains; null: `speed`
    double priority = 1;
    int tenant = any;
    bool guaranteed = true;        ///< or best effort: may be stopped whenever a policy likes
    std::optional<Time> deadline;  ///< since its arrival
    double cpus = 0;               ///< cores for each GPU
    double cpu_scaling = 0;        ///< with a share s of them it has s^cpu_scaling of its speed
    double memory = 0;             ///< bytes of the host for each GPU
    std::string model;
    std::string plan;
    std::shared_ptr<const JobModel> model_state;  ///< null where costs of changes do not depend on it
    std::size_t line = 0;                         ///< of the trace
    bool is_dated = false;                        ///< in the trace, `arrival` is a date or counts from 1970
};

/// How many GPUs jobs may have for which their trace sets no limits, as multiples of what they ask for.
struct Elasticity {
    double least = 1;  ///< from 0 to 1
    double most = 1;   ///< at least 1
};

/// Sets the limits of `job`, at least one GPU, unless it has its own.
void set_limits(TraceJob& job, const Elasticity& elasticity);

}  // namespace tpx
