// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cmd/migrate.hpp"
#include "cmd/output.hpp"
#include "formats/store/manifest.hpp"

#include <string>

namespace tpx::cli {

/// Where a migration reads and writes, as a user named it.
struct MigratePlaces {
    std::string from;
    std::string to;
    std::string state;  ///< where a new rank loads its state, with "{host}" in it; empty: at `to`
};

/// Prints what was done, or, without `done`, what would be. `manifest` is that of the new state in managed stores; null
/// for others.
void report(const Migration& job, const MigratePlaces& places, const MigrateDone* done, Output& out,
            const formats::Manifest* manifest = nullptr);

/// Prints which state the stores have when nothing was moved.
void report_current(const std::string& store, const formats::Manifest& manifest, Output& out);

}  // namespace tpx::cli
