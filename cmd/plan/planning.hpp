// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cmd/jobs/reading.hpp"
#include "cmd/output/output.hpp"
#include "cmd/plan/plan.hpp"
#include "formats/convert/conversion.hpp"
#include "lib/change/certificate.hpp"
#include "lib/change/change.hpp"
#include "lib/change/survival.hpp"
#include "lib/layout/model.hpp"

#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace tpx::cli {

/// What a plan of a checkpoint has and that of a model lacks: the bytes in files.
struct CheckpointChange {
    std::string path;  ///< the checkpoint's folder; of merged stores with "{host}" in it
    Opened opened;
    std::uint64_t source_digest = 0;  ///< catalogue_digest() before convert(), which may change `opened`
    formats::Target target;
    formats::Conversion conversion;
    std::vector<Piece> held;    ///< what old ranks (with --stores: hosts) hold, as pieces of canonical tensors
    std::vector<Piece> needed;  ///< what new ranks need
    std::vector<Role> roles;
    std::vector<std::uint32_t> roles_of_tensors;  ///< of each canonical tensor, an index into `roles`
    Moves moves;
    Certificate certificate;
};

/// Bytes between hosts with TP groups on any hosts.
struct FreeGroups {
    std::uint64_t crossing = 0;  ///< of the placement that was found
    std::uint64_t bound = 0;     ///< of every placement
};

/// What `tpx plan` reports, lists and writes.
struct PlanReport {
    std::unique_ptr<CheckpointChange> checkpoint;  ///< set exactly when `model` is not
    std::optional<ModelState> model;
    std::optional<Layout> from;  ///< nothing when no layout explains the checkpoint
    Layout to;
    std::string format;  ///< of a model: whose split of optimizer state is counted (--format); empty: the even one
    Change change;
    std::optional<Survival> survival;  ///< if it was asked for
    /// Bytes that would come into hosts if blocks filled hosts, where that splits TP groups that are whole now.
    std::optional<std::uint64_t> crossing_if_split;
    /// What placing TP groups freely would send, if that was looked for.
    std::optional<FreeGroups> free_groups;
    std::vector<std::string> notes;  ///< what a user should know; those of a checkpoint's conversion aside
};

/// Plans what `options` ask. Throws Error (usage) for an invalid request, Error (no) when no plan can exist.
PlanReport make_plan_report(const PlanOptions& options);

/// Hosts, and for each file of a checkpoint the numbers of the hosts whose stores have it, ascending.
struct StoredOnHosts {
    std::span<const Host> hosts;
    std::span<const std::vector<std::uint32_t>> holders;
};

/// The same for a checkpoint, or for the union of node-local stores. With `opened`, which is the checkpoint that
/// `options` name, transfers are not ordered. With `stored`, its files are on these hosts.
PlanReport plan_checkpoint(const PlanOptions& options, const Opened* opened = nullptr,
                           const StoredOnHosts* stored = nullptr);

/// Throws Error (usage) for --objective and --placement that are not possible together or with other options.
void check_placement_options(const PlanOptions& options);

/// Fills `report` for `model` from one layout to another, with old ranks on `seats`, and new ranks as `placement` says
/// or where they are placed best.
void plan_model(PlanReport& report, const ModelState& model, const Layout& from, const Layout& to,
                std::vector<Host> hosts, std::vector<Seat> seats, const PlanOptions& options, bool in_rounds = true,
                std::optional<Placement> placement = std::nullopt);

/// Throws Error (usage) if `options`, which name a model, also have what is only for checkpoints, or lack --from.
void check_model_request(const PlanOptions& options);

/// Where `options` say that the current state is, or where it is by default.
StateIn given_state(const PlanOptions& options);

/// How `options` want the change to be made; may_read is left to the caller.
ChangeOptions change_options(const PlanOptions& options);

/// Where old ranks are. Those that are too many for the hosts need no seats if shared storage has their state, which
/// `notes` then say.
std::vector<Seat> seats_of_old_ranks(const PlanOptions& options, const std::vector<Host>& hosts, int ranks,
                                     std::vector<std::string>& notes);

/// Makes the change of `report`, with what `options` ask beside it. Throws Error (no) when a device cannot hold what
/// its new rank needs.
void complete(PlanReport& report, const PlanOptions& options, Parcels parcels, std::vector<Host> hosts,
              std::vector<Seat> seats, ChangeOptions change);

/// The description of the model that `options` name.
ModelState given_model(const PlanOptions& options);

/// Writes the plan to `file`, in the format of tpx-plan(5).
void write_plan(const PlanReport& report, const std::filesystem::path& file);

/// Checks the plan of `options.check`, against the checkpoint if one is given, says what was checked, and throws Error
/// (exit 3) if it does not hold.
void check_plan(const PlanOptions& options, Output& out);

}  // namespace tpx::cli
