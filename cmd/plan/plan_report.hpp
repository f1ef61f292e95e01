// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cmd/output/output.hpp"
#include "cmd/plan/plan.hpp"
#include "cmd/plan/planning.hpp"
#include "lib/change/piece_parcels.hpp"

#include <nlohmann/json.hpp>

#include <string>
#include <vector>

namespace tpx::cli {

/// All that --json prints of a plan, except for the name of the schema; the HTML report shows the same numbers.
nlohmann::ordered_json plan_json(const PlanReport& report);

/// Prints the report for people.
void print_plan(const PlanReport& report, Output& out);

/// What is proven about the bytes and the placement, and the word for the goal of the placement.
void print_proof(const PlanReport& report, Output& out);
nlohmann::ordered_json certificate_json(const PlanReport& report);
const char* placement_goal_word(PlacementGoal placed_for);

/// What --survive adds to the report.
void print_survival(const PlanReport& report, Output& out);
nlohmann::ordered_json survival_json(const PlanReport& report);

/// The iteration of the state in each source, if it is known for at least one source.
void print_sources(const PlanReport& report, Output& out);
nlohmann::ordered_json sources_json(const PlanReport& report);

/// The memory use of the device that has the least memory left while state in device memory moves.
void print_peak(const PlanReport& report, Output& out);
nlohmann::ordered_json peak_json(const PeakMemory& peak);

/// What --list prints: for a checkpoint, the boxes that move from file to file; for a model, the transfers between
/// hosts and the tensors that they carry; with --json, both.
void list_moves(const PlanReport& report, Output& out);
nlohmann::ordered_json list_json(const PlanReport& report);

/// The cells of a checkpoint's parcels.
std::vector<PieceCell> cells_of(const CheckpointChange& change, const Parcels& parcels);

/// Whether `options` ask for files: the plan, the placement or the page.
bool asks_for_files(const PlanOptions& options);

/// Writes the files that `options` ask for.
void write_plan_files(const PlanOptions& options, const PlanReport& report);

/// The bytes of all transfers from one host to another.
struct Flow {
    std::uint32_t from = 0;  ///< or from_storage
    std::uint32_t to = 0;
    std::uint64_t bytes = 0;
};

/// The flows of `transfers`, by sender, then receiver.
std::vector<Flow> sum_flows(const std::vector<Transfer>& transfers);

}  // namespace tpx::cli
