// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cmd/plan/plan.hpp"
#include "cmd/plan/planning.hpp"
#include "lib/change/load.hpp"
#include "lib/layout/layout.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tpx::cli {

/// A layout that the job could change to.
struct ReachableLayout {
    /// The costs of a plan for the layout.
    struct Costs {
        BytesBySource total;
        std::uint64_t busiest_host = 0;  ///< the most that one host sends or receives
        double seconds = 0;              ///< an estimate where rates are assumed
    };
    Layout layout;
    double step = 0;             ///< seconds of a training step, predicted
    std::uint64_t crossing = 0;  ///< bytes between hosts
    bool is_exact = false;       ///< otherwise `crossing` is a lower bound
    std::optional<Costs> costs;  ///< known for the best layouts only
};

/// What `--to auto` finds.
struct ComparedLayouts {
    Layout from;
    int ranks = 1;
    std::vector<ReachableLayout> layouts;  ///< best first; those with costs come before all others
    std::size_t split = 0;                 ///< number of excluded layouts with a TP group on several hosts
    std::size_t excluded = 0;              ///< number of layouts with excluded techniques
    std::vector<std::pair<std::string_view, std::size_t>>
        excluded_by_technique;  ///< number of excluded layouts, by technique
    std::size_t too_large = 0;  ///< number of excluded layouts with more state per rank than a device holds
    std::uint64_t smallest_too_large =
        0;                         ///< the fewest bytes per rank that any of these layouts needs; 0: there are none
    double device_memory = 0;      ///< of the largest device
    bool is_memory_known = false;  ///< false: the memory of some devices is unknown, and assumed to be the largest sold
    std::vector<std::string> assumed;  ///< assumptions behind the step times
    std::string fit_of_other;          ///< as in AutoInputs
};

/// The number of layouts that are compared in full detail without --top.
inline constexpr std::size_t max_compared_layouts = 20;

/// Compares the layouts that `options` allow, by bytes between hosts or, if a fit is given, by step time. With
/// --pareto, keeps only layouts that are Pareto-optimal in both. Throws Error (usage, no) if there is none.
ComparedLayouts compare_layouts(const PlanOptions& options);

/// The same for a checkpoint in node-local stores. `opened` is its metadata, and `stored` names the hosts that have its
/// files. Reads only metadata.
ComparedLayouts compare_layouts(const PlanOptions& options, const OpenedCheckpoint& opened,
                                const StoredOnHosts& stored);

}  // namespace tpx::cli
