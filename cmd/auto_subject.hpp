// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cmd/commands.hpp"
#include "cmd/reading.hpp"
#include "lib/change/hosts.hpp"
#include "lib/layout/layout.hpp"
#include "lib/layout/model.hpp"
#include "lib/model/model_size.hpp"
#include "lib/model/parameters.hpp"

#include <optional>
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
    int ranks = 1;  ///< that the new layout has
};

/// The model or checkpoint of `options`, whose metadata is read once, with the hosts.
AutoSubject auto_subject(const PlanOptions& options);

/// Every layout that fills the ranks; whether it fits the tensors was not looked at.
std::vector<Layout> possible_layouts(const AutoSubject& subject);

}  // namespace tpx::cli
