// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cmd/jobs/open_checkpoint.hpp"
#include "cmd/output/output.hpp"
#include "cmd/plan/plan.hpp"
#include "formats/convert/conversion.hpp"
#include "lib/change/certificate.hpp"
#include "lib/change/change.hpp"
#include "lib/change/survival.hpp"
#include "lib/layout/model_state.hpp"

#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace tpx::cli {

/// The part of a plan that only a checkpoint has: the bytes in files.
struct CheckpointChange {
    std::string path;  ///< the checkpoint's folder; for merged stores, contains "{host}"
    OpenedCheckpoint opened;
    std::uint64_t source_digest = 0;  ///< catalogue_digest() before convert(), which may change `opened`
    formats::Target target;
    formats::Conversion conversion;
    std::vector<Piece> held;    ///< what old ranks hold (with --stores: hosts), as pieces of canonical tensors
    std::vector<Piece> needed;  ///< what new ranks need
    std::vector<Role> roles;
    std::vector<std::uint32_t> roles_of_tensors;  ///< of each canonical tensor, an index into `roles`
    Moves moves;
    Certificate certificate;
};

/// Bytes between hosts if each TP group can be placed on any host.
struct FreeGroups {
    std::uint64_t crossing = 0;  ///< of the placement that was found
    std::uint64_t bound = 0;     ///< lower bound for all such placements
};

/// What `tpx plan` reports, lists and writes.
struct PlanReport {
    std::unique_ptr<CheckpointChange> checkpoint;  ///< set if and only if `model` is not
    std::optional<ModelState> model;
    std::optional<Layout> from;  ///< nothing if no layout explains the checkpoint
    Layout to;
    std::string format;  ///< of a model: the format that splits optimizer state (--format); empty: an even split
    Change change;
    std::optional<Survival> survival;  ///< if it was asked for
    /// Bytes that hosts would receive if blocks filled hosts; set only if that would split TP groups.
    std::optional<std::uint64_t> crossing_if_split;
    /// What placing TP groups freely would send, if it was computed.
    std::optional<FreeGroups> free_groups;
    std::vector<std::string> notes;  ///< notes for the user, except those of a checkpoint's conversion
};

/// Makes the plan that `options` ask for. Throws Error (usage) for an invalid request, and Error (no) if no plan
/// exists.
PlanReport make_plan_report(const PlanOptions& options);

/// Hosts, and for each file of a checkpoint the indices of the hosts whose stores have it, ascending.
struct StoredOnHosts {
    std::span<const Host> hosts;
    std::span<const std::vector<std::uint32_t>> holders;
};

/// make_plan_report() for a checkpoint, or for the union of node-local stores. With `opened`, which is the checkpoint
/// that `options` name, transfers are not ordered in rounds. With `stored`, the files are on its hosts.
PlanReport plan_checkpoint(const PlanOptions& options, const OpenedCheckpoint* opened = nullptr,
                           const StoredOnHosts* stored = nullptr);

/// Throws Error (usage) if --objective and --placement exclude each other or other options.
void check_placement_options(const PlanOptions& options);

/// Fills `report` for the change of `model` from layout `from` to layout `to`. Old ranks are on `rank_locations`. New
/// ranks are placed as in `placement` or, by default, as `options` ask.
void plan_model(PlanReport& report, const ModelState& model, const Layout& from, const Layout& to,
                std::vector<Host> hosts, std::vector<RankLocation> rank_locations, const PlanOptions& options,
                bool in_rounds = true, std::optional<Placement> placement = std::nullopt);

/// Throws Error (usage) if `options`, which name a model, also have options for checkpoints only, or lack --from.
void check_model_request(const PlanOptions& options);

/// Where the current state is, from `options` or by default.
StateMedium state_from_options(const PlanOptions& options);

/// The options of the change that `options` ask for; the caller sets may_read.
ChangeOptions change_options(const PlanOptions& options);

/// Where the old ranks are. If they are too many for the hosts, but their state is on shared storage, no rank has a
/// location, and a note is added to `notes`.
std::vector<RankLocation> locations_of_old_ranks(const PlanOptions& options, const std::vector<Host>& hosts, int ranks,
                                                 std::vector<std::string>& notes);

/// Makes the change of `report`, and what `options` ask for in addition. Throws Error (no) if the memory of a device is
/// too small for its new rank.
void complete(PlanReport& report, const PlanOptions& options, Parcels parcels, std::vector<Host> hosts,
              std::vector<RankLocation> rank_locations, ChangeOptions change);

/// The description of the model that `options` name.
ModelState model_from_options(const PlanOptions& options);

/// Writes the plan to `file`, in the format of tpx-plan(5).
void write_plan(const PlanReport& report, const std::filesystem::path& file);

/// Checks the plan in `options.check`, also against the checkpoint if one is given, and prints what was checked. Throws
/// Error (exit 3) if the plan does not hold.
void check_plan(const PlanOptions& options, Output& out);

}  // namespace tpx::cli
