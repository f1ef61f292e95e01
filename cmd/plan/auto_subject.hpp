// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cmd/jobs/reading.hpp"
#include "cmd/plan/plan.hpp"
#include "lib/change/hosts.hpp"
#include "lib/layout/layout.hpp"
#include "lib/layout/model.hpp"
#include "lib/model/model_size.hpp"
#include "lib/model/parameters.hpp"

#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

namespace tpx::cli {

/// What the layouts to compare are found from.
struct AutoSubject {
    std::optional<ModelState> model;  ///< or `opened`
    std::optional<Opened> opened;
    Layout from;
    int layers = 1;
    int experts = 0;
    bool cut_by_family = true;  ///< tensors can be cut for tensor parallelism and dealt to stages
    ModelSize size;
    double batch = 0;
    std::optional<Parameters> fitted;
    std::vector<Host> hosts;
    int ranks = 1;                           ///< that the new layout has
    std::vector<std::string_view> excluded;  ///< techniques, of layout_techniques, that layouts must not use
};

/// The model or checkpoint of `options` with the hosts. The checkpoint's metadata is read and its pieces are located,
/// so that no file need be opened for each layout.
AutoSubject auto_subject(const PlanOptions& options);

/// The same for a checkpoint that is open, on hosts that are known.
AutoSubject auto_subject(const PlanOptions& options, const Opened& opened, std::span<const Host> hosts);

struct PossibleLayouts {
    std::vector<Layout> layouts;
    std::size_t split = 0;     ///< number of excluded layouts with a TP group on several hosts
    std::size_t excluded = 0;  ///< number of layouts with excluded techniques
    /// Number of excluded layouts, by technique; a layout counts for each of its techniques.
    std::vector<std::pair<std::string_view, std::size_t>> excluded_by_technique;
};

/// Every layout without excluded techniques that fills the ranks and keeps TP groups on one host; whether it fits the
/// tensors was not looked at. Throws Error (usage) when the hosts have too few devices.
PossibleLayouts possible_layouts(const AutoSubject& subject);

}  // namespace tpx::cli
