// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/cluster/cluster.hpp"
#include "lib/cluster/model_plans.hpp"
#include "lib/cluster/plan_table.hpp"
#include "lib/cluster/speed.hpp"

#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace tpx::formats {

/// Measured rates of jobs or models, by kind and number of GPUs.
class JobSpeeds {
public:
    struct Entry {
        std::shared_ptr<TableSpeed> speed = std::make_shared<TableSpeed>();
        bool whole_jobs = false;  ///< rates are jobs a second, not steps
        bool used = false;
    };

    /// The rates of the job called `job`, else of `model`; null where there are none.
    const Entry* find(const std::string& job, const std::string& model) const;
    bool empty() const { return jobs_.empty() && models_.empty() && plans_.empty() && predicted_.empty(); }

    /// From now on policies choose no plan that uses any of `excluded`. Returns how many models have plans to choose
    /// from.
    std::size_t exclude(std::span<const std::string_view> excluded);

    std::map<std::string, Entry> jobs_, models_;
    std::map<std::string, std::shared_ptr<PlanTable>> plans_;       ///< step times by plan and placement, of models
    std::map<std::string, std::shared_ptr<ModelPlans>> predicted_;  ///< models whose step times are predicted
    std::vector<std::string> assumed;                               ///< files of these that were never fitted
};

/// Reads rates: CSV or JSON rows with `job` or `model`, `gpus`, `kind` where they differ by kind, and `rate` (steps a
/// second) or `seconds` (of the whole job); or Gavel's table of throughputs. Kinds that `cluster` does not have are
/// left out. Throws Error "FILE:LINE: cause".
JobSpeeds parse_speeds(std::string_view text, std::string_view file, const Cluster& cluster);

/// The rates in the file at `path`, NAME.toml being what `tpx profile fit` has found out of model NAME; or, where it is
/// a folder, the step times by plan and placement in its files MODEL.csv or placements-MODEL.csv, as Rubick's artifact
/// has them, and of other models what MODEL.toml predicts. Throws Error.
JobSpeeds read_speeds(const std::string& path, const Cluster& cluster);

}  // namespace tpx::formats
