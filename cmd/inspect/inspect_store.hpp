// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cmd/output/output.hpp"

#include <string>

namespace tpx::cli {

/// The options of tpx inspect --store.
struct InspectStoreOptions {
    std::string store;
    std::string hosts;
    bool emulate = false;
};

/// tpx inspect --store: prints the current state of each host, and what else the stores contain. Throws Finished (exit
/// 3) if a host of the newest state does not have this state, or if a switch is unfinished.
void inspect_store(const InspectStoreOptions& options, Output& out);

}  // namespace tpx::cli
