// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cmd/output.hpp"

#include <string>

namespace tpx::cli {

/// What tpx inspect --store is told.
struct InspectStoreOptions {
    std::string store;
    std::string hosts;
    bool emulate = false;
};

/// tpx inspect --store: prints which state is current on which host, and what else the stores contain. Throws Finished
/// (exit 3) unless all hosts that belong to the newest state have it, and no switch is unfinished.
void inspect_store(const InspectStoreOptions& options, Output& out);

}  // namespace tpx::cli
