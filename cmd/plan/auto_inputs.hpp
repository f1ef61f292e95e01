// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cmd/jobs/open_checkpoint.hpp"
#include "cmd/plan/plan.hpp"
#include "lib/change/hosts.hpp"
#include "lib/layout/layout.hpp"
#include "lib/layout/model_state.hpp"
#include "lib/model/model_size.hpp"
#include "lib/model/parameters.hpp"

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tpx::cli {

/// The inputs from which the layouts to compare are found.
struct AutoInputs {
    std::optional<ModelState> model;  ///< unset: `opened` is set
    std::optional<OpenedCheckpoint> opened;
    Layout from;
    int layers = 1;
    int experts = 0;
    bool cut_by_family = true;  ///< tensors can be split over tensor-parallel ranks and stages
    ModelSize size;
    double batch = 0;
    std::optional<Parameters> fitted;
    std::string fit_of_other;  ///< why `fitted` belongs to another model; empty: it does not
    std::vector<Host> hosts;
    int ranks = 1;                           ///< of the new layout
    std::vector<std::string_view> excluded;  ///< techniques, of layout_techniques, that layouts must not use
};

/// The model or checkpoint of `options` with the hosts. The checkpoint's metadata is read and its pieces are located,
/// so that no file has to be opened for each layout.
AutoInputs auto_inputs(const PlanOptions& options);

/// The same for an open checkpoint on known hosts.
AutoInputs auto_inputs(const PlanOptions& options, const OpenedCheckpoint& opened, std::span<const Host> hosts);

struct PossibleLayouts {
    std::vector<Layout> layouts;
    std::size_t split = 0;     ///< number of excluded layouts with a TP group on several hosts
    std::size_t excluded = 0;  ///< number of layouts with excluded techniques
    /// Number of excluded layouts, by technique; a layout counts once for each excluded technique that it uses.
    std::vector<std::pair<std::string_view, std::size_t>> excluded_by_technique;
};

/// All layouts without excluded techniques that use all ranks and keep each TP group on one host. Does not check
/// whether they are valid for the tensors. Throws Error (usage) if the hosts have too few devices.
PossibleLayouts possible_layouts(const AutoInputs& subject);

}  // namespace tpx::cli
