// SPDX-License-Identifier: Apache-2.0
#include "cmd/commands.hpp"
#include "lib/core/error.hpp"

namespace tpx::cli {

void run_verify(const VerifyOptions&, Output&) { throw failure("verify: not built yet"); }

}  // namespace tpx::cli
