// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cmd/cli/cli.hpp"
#include "cmd/cli/options.hpp"

#include <string>
#include <vector>

namespace tpx::cli {

struct VerifyOptions : ReadOptions, LimitOptions {
    std::string first;
    std::string second;
    std::vector<std::string> ignore;
    bool weights_only = false;
    bool write = false;
    bool masters = false;
    bool dtype = false;
    bool tensors = false;
};

void run_verify(const VerifyOptions& options, Output& out);

/// Describes `tpx verify`.
void add_verify(Cli& cli);

}  // namespace tpx::cli
