// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cmd/cli/cli.hpp"
#include "cmd/cli/options.hpp"

#include <string>

namespace tpx::cli {

struct InspectOptions : ReadOptions {
    std::string checkpoint;
    std::string where;
    std::string html;
    bool tensors = false;
    bool state = false;
};

void run_inspect(const InspectOptions& options, Output& out);

/// Describes `tpx inspect`.
void add_inspect(Cli& cli);

}  // namespace tpx::cli
