// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/change/hosts.hpp"
#include "lib/cluster/change_cost.hpp"
#include "lib/cluster/cluster.hpp"
#include "lib/cluster/job_model.hpp"

#include <map>
#include <string>
#include <vector>

namespace tpx {

/// How state comes to where it is needed.
enum class StateRoute {
    directly,   ///< from the GPUs that have it to those that lack it, as little as can be
    centrally,  ///< all of it to the host with most of the job's GPUs, which then sends each host its part
    by_storage  ///< all of it is written to storage that hosts share, and read again
};

/// Costs of changes as `tpx plan` predicts them: the bytes that must move at the rates of the hosts that they move
/// between, and the time in which processes are started again. NICs and disks are the job's alone. Ranks are taken to
/// fill the hosts of a grant in order, those with most GPUs first, so that a cost depends on the model, the two layouts
/// and the GPUs of each host before and after alone, and is planned once for them.
class PlannedChanges final : public ChangeCosts {
public:
    /// `hosts` has the rates of each host of `cluster`. Jobs have models.
    PlannedChanges(const Cluster& cluster, std::vector<Host> hosts, StateRoute goes, Time restart);

    Time restart() const override { return restart_; }
    ChangeCost change(const TraceJob& job, const Grant& from, const Grant& to) const override;
    bool stores() const override { return goes_ == StateRoute::by_storage; }
    ChangeCost resume(const TraceJob& job, const Grant& from, const Grant& to) const override;
    bool survives(const TraceJob& job, const Grant& from, std::span<const int> lost) const override;
    ChangeCost recover(const TraceJob& job, const Grant& from, std::span<const int> lost,
                       const Grant& to) const override;
    /// How many different changes were planned.
    std::size_t planned() const { return known_.size(); }

private:
    /// What a job has and gets on one host.
    struct Place {
        int rates = 0;  ///< hosts of the same rates have the same number, and are alike
        int before = 0;
        int after = 0;
        bool lost = false;
        auto operator<=>(const Place&) const = default;
    };
    struct Key {
        const JobModel* model;
        std::string from, to;
        std::vector<Place> places;
        StateRoute goes;
        auto operator<=>(const Key&) const = default;
    };
    struct Moved {
        double seconds = 0;
        double bytes = 0;
    };

    std::vector<Place> places_of(const Grant& from, const Grant& to, std::span<const int> lost) const;
    ChangeCost cost(const TraceJob& job, const Grant& from, const Grant& to, StateRoute goes,
                    std::span<const int> lost = {}) const;
    Moved move(const JobModel& model, const Layout& from, const Layout& to, const std::vector<Place>& places) const;
    Moved gather(const JobModel& model, const Layout& from, const Layout& to, const std::vector<Place>& places) const;
    Moved write(const JobModel& model, const std::vector<Place>& places) const;
    Moved read(const JobModel& model, const Layout& to, const std::vector<Place>& places) const;

    std::vector<Host> rates_;  // the first host of each number
    std::vector<int> numbers_;
    StateRoute goes_;
    Time restart_;
    mutable std::map<Key, Moved> known_;
};

}  // namespace tpx
