// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cmd/output.hpp"
#include "cmd/reading.hpp"
#include "formats/conversion.hpp"
#include "lib/change/certificate.hpp"
#include "lib/change/cost.hpp"
#include "lib/change/relocation.hpp"
#include "lib/layout/model.hpp"

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace tpx::cli {

/// What a plan of a checkpoint has and that of a model lacks: the bytes in files.
struct CheckpointChange {
    Opened opened;
    formats::Target target;
    formats::Conversion conversion;
    std::vector<Piece> held;    ///< what old ranks (with --stores: hosts) hold, as pieces of canonical tensors
    std::vector<Piece> needed;  ///< what new ranks need
    std::vector<std::string> roles;
    std::vector<std::uint32_t> roles_of_tensors;  ///< of each canonical tensor, an index into `roles`
    Plan plan;
    Certificate certificate;
};

/// A change of layout with all that can be said of it before anything moves.
struct Planned {
    std::unique_ptr<CheckpointChange> checkpoint;  ///< set exactly when `model` is not
    std::optional<ModelState> model;
    std::optional<Layout> from;  ///< nothing when no layout explains the checkpoint
    Layout to;
    std::vector<Host> hosts;
    std::vector<Seat> seats;  ///< of the old ranks
    StateIn state = StateIn::shared;
    std::uint64_t window = default_window;  ///< see Relocation
    bool in_rounds = true;                  ///< whether `relocation` has a schedule, which takes most of the time
    Parcels parcels;
    Placement placement;
    Relocation relocation;
    Prediction prediction;
    std::vector<std::string> notes;          ///< what a user should know; those of a checkpoint's conversion aside
    std::vector<std::uint64_t> held_before;  ///< bytes of each old rank
    std::vector<std::uint64_t> held_after;   ///< bytes of each new rank
};

/// Plans what `options` ask. Throws Error (usage) for a request that cannot be, Error (no) when no plan can exist.
Planned make_planned(const PlanOptions& options);

/// Plans the change of a checkpoint that is open already, without rounds; `opened` is what `options` name.
Planned make_unscheduled(const PlanOptions& options, const Opened& opened);

/// Plans `model` from one layout to another on hosts that are known; `planned` has `hosts`, `seats` and `state`.
void plan_model(Planned& planned, const ModelState& model, const Layout& from, const Layout& to, bool pin);

/// Where `options` say that state lies, or where it does by default.
StateIn given_state(const PlanOptions& options);

/// The description of the model that `options` name.
ModelState given_model(const PlanOptions& options);

/// Writes the plan to `file`, in the format of tpx-plan(5).
void write_plan(const Planned& planned, const std::filesystem::path& file);

/// Checks the plan of `options.check`, against the checkpoint if one is given, says what was checked, and throws Error
/// (exit 3) if it does not hold.
void check_plan(const PlanOptions& options, Output& out);

}  // namespace tpx::cli
