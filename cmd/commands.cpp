// SPDX-License-Identifier: Apache-2.0
#include "cmd/commands.hpp"

#include "cmd/hold.hpp"
#include "cmd/profile.hpp"
#include "cmd/rules.hpp"
#include "cmd/simulate.hpp"

namespace tpx::cli {
void add_commands(Cli& cli) {
    add_inspect(cli);
    add_plan(cli);
    add_reshard(cli);
    add_verify(cli);
    add_profile(cli);
    add_simulate(cli);
    add_migrate(cli);
    add_hold(cli);
    add_rules(cli);
}

}  // namespace tpx::cli
