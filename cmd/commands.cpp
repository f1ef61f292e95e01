// SPDX-License-Identifier: Apache-2.0
#include "cmd/commands.hpp"

#include "cmd/hold/hold.hpp"
#include "cmd/inspect/inspect.hpp"
#include "cmd/migrate/migrate.hpp"
#include "cmd/plan/plan.hpp"
#include "cmd/profile/profile.hpp"
#include "cmd/reshard/reshard.hpp"
#include "cmd/rules/rules.hpp"
#include "cmd/simulate/simulate.hpp"
#include "cmd/verify/verify.hpp"

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
