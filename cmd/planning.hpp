// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cmd/output.hpp"
#include "formats/conversion.hpp"
#include "lib/plan/certificate.hpp"
#include "lib/plan/cost.hpp"
#include "lib/plan/hosts.hpp"
#include "lib/plan/movement.hpp"

#include <filesystem>
#include <string>
#include <vector>

namespace tpx::cli {

/// A change of layout with all that can be said of it before anything moves.
struct Planned {
    formats::Conversion conversion;
    Plan plan;
    Certificate certificate;
    std::vector<std::string> roles;  ///< what movement.roles counts
    std::vector<Host> hosts;
    Movement movement;
    Prediction prediction;  ///< of a reshard through shared storage
};

/// Plans the change of `source` to `target`. `hosts` is a file, "NxG", or empty: one host for all ranks. A source whose
/// layout is unknown is taken to be held by the ranks that wrote it.
Planned make_planned(formats::Source& source, const formats::Target& target, const std::string& hosts);

/// Writes the plan to `file`, in the format of tpx-plan(5).
void write_plan(const formats::Source& source, const formats::Target& target, const Planned& planned,
                const std::filesystem::path& file);

/// Checks the plan in `file` against the checkpoint, says what was checked, and throws Error (exit 3) if it does not
/// hold.
void check_plan(const formats::Source& source, const std::filesystem::path& file, Output& out);

}  // namespace tpx::cli
