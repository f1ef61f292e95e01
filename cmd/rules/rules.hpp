// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cmd/cli/cli.hpp"
#include "cmd/cli/options.hpp"

#include <string>

namespace tpx::cli {

struct RulesSuggestOptions : ReadOptions {
    std::string checkpoint, output;
};

struct RulesCheckOptions : ReadOptions {
    std::string file, checkpoint;
};

void run_rules_suggest(const RulesSuggestOptions& options, Output& out);
void run_rules_check(const RulesCheckOptions& options, Output& out);

/// Describes `tpx rules` and its commands.
void add_rules(Cli& cli);

}  // namespace tpx::cli
