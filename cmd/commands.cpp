// SPDX-License-Identifier: Apache-2.0
#include "cmd/commands.hpp"

#include "cmd/profile.hpp"
#include "cmd/simulate.hpp"

namespace tpx::cli {
namespace {

void add_not_built(Cli& cli, std::string_view name, std::string_view summary) {
    Command& command = cli.command(name, summary);
    command.not_built();
    command.common_options();
}

}  // namespace

void add_commands(Cli& cli) {
    add_inspect(cli);
    add_plan(cli);
    add_reshard(cli);
    add_verify(cli);
    add_profile(cli);
    add_simulate(cli);
    add_not_built(cli, "migrate", "Move training state between node-local stores");
}

}  // namespace tpx::cli
