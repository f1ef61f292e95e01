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

/// A layout that could be reached.
struct ReachableLayout {
    /// What a plan for it says.
    struct Costs {
        Bytes total;
        std::uint64_t busiest_host = 0;  ///< the most that one host sends or receives
        double seconds = 0;              ///< an estimate where rates are assumed
    };
    Layout layout;
    double step = 0;             ///< seconds of a training step, predicted
    std::uint64_t crossing = 0;  ///< bytes between hosts
    bool is_exact = false;       ///< otherwise `crossing` is what it is at least
    std::optional<Costs> costs;  ///< of the layouts that come first
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
        0;                             ///< bytes of the fullest rank of that of them where these are fewest; 0: unknown
    double device_memory = 0;          ///< of the largest device
    bool is_memory_known = false;      ///< else `device_memory` is assumed for some hosts, as large as devices are
    std::vector<std::string> assumed;  ///< for step times that no fit says
};

/// How many layouts are compared in all details without --top.
inline constexpr std::size_t most_compared = 20;

/// Compares the layouts that `options` allow. By bytes between hosts, or by step time where a fit is given; with
/// --pareto only those that no other one beats in both. Throws Error (usage, no) when there is none.
ComparedLayouts compare_layouts(const PlanOptions& options);

/// The same for a checkpoint in node-local stores, whose metadata is open; its files are on the hosts that `stored`
/// names. Reads nothing but metadata.
ComparedLayouts compare_layouts(const PlanOptions& options, const Opened& opened, const StoredOnHosts& stored);

}  // namespace tpx::cli
