// SPDX-License-Identifier: Apache-2.0
#include "cmd/commands.hpp"
#include "lib/core/error.hpp"

namespace tpx::cli {

void run_reshard(const ReshardOptions&, Output&) { throw failure("reshard: not built yet"); }

}  // namespace tpx::cli
