// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cmd/jobs/held_store.hpp"
#include "lib/change/hosts.hpp"

#include <filesystem>
#include <memory>
#include <string>

namespace tpx::cli {

/// The folder of a host among the plain folders `pattern`.
struct PlainStore {
    std::filesystem::path folder;
    std::shared_ptr<const HeldStore> held;  ///< null: the folder is on disk
};

/// The plain folder of `host`: `pattern` with the name of the host in place of each "{host}", which "hold:NAME" may
/// omit. Throws Error as store_of() and HeldStore do.
PlainStore plain_store(const std::string& pattern, const Host& host);

}  // namespace tpx::cli
