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

/// All that --json prints of a plan, the schema's name aside; the HTML report shows the same numbers.
nlohmann::ordered_json plan_json(const PlanReport& report);

/// The report for people.
void print_plan(const PlanReport& report, Output& out);

/// What is proven about the bytes and the placement, and the word for what the placement was chosen for.
void print_proof(const PlanReport& report, Output& out);
nlohmann::ordered_json certificate_json(const PlanReport& report);
const char* placed_for_word(PlacedFor placed_for);

/// What --survive adds to the report.
void print_survival(const PlanReport& report, Output& out);
nlohmann::ordered_json survival_json(const PlanReport& report);

/// Which iteration the state of each source is of, if that is known of one.
void print_sources(const PlanReport& report, Output& out);
nlohmann::ordered_json sources_json(const PlanReport& report);

/// The memory of the device that has least left while state in device memory moves.
void print_peak(const PlanReport& report, Output& out);
nlohmann::ordered_json peak_json(const PeakMemory& peak);

/// What --list prints: of a checkpoint the boxes that go from file to file, of a model the transfers between hosts with
/// the tensors they are of, and with --json both.
void list_moves(const PlanReport& report, Output& out);
nlohmann::ordered_json list_json(const PlanReport& report);

/// The cells of a checkpoint's parcels.
std::vector<PieceCell> cells_of(const CheckpointChange& change, const Parcels& parcels);

/// Whether `options` ask for files: the plan, the placement or the page.
bool asks_for_files(const PlanOptions& options);

/// Writes the files that `options` ask for.
void write_plan_files(const PlanOptions& options, const PlanReport& report);

/// Bytes that go from one host to another, all transfers together.
struct Flow {
    std::uint32_t from = 0;  ///< or from_storage
    std::uint32_t to = 0;
    std::uint64_t bytes = 0;
};

/// The flows of `transfers`, by sender, then receiver.
std::vector<Flow> sum_flows(const std::vector<Transfer>& transfers);

}  // namespace tpx::cli
