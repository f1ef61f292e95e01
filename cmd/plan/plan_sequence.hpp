// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cmd/plan/plan.hpp"
#include "cmd/plan/planning.hpp"

#include <nlohmann/json.hpp>

#include <cstdint>
#include <vector>

namespace tpx::cli {

/// Changes of layout that follow each other on the same hosts.
struct SequenceReport {
    std::vector<PlanReport> steps;
    PlanReport direct;             ///< from the first layout directly to the last
    std::uint64_t one_by_one = 0;  ///< bytes between hosts if each step is placed without regard to later ones
    bool is_least = false;         ///< proven: no placements in blocks send fewer bytes in total
};

/// Bytes that all hosts receive in `report`, from each other or from storage.
std::uint64_t between_hosts(const PlanReport& report);

/// Plans the changes from --from via each --via to --to. Throws Error (usage) for an invalid request, and Error (no) if
/// no plan exists for a step.
SequenceReport make_sequence(const PlanOptions& options);

/// tpx plan --via: plans the changes, writes the files that `options` ask for, and prints the result.
void plan_sequence(const PlanOptions& options, Output& out);

/// The report, for people and for programs.
void print_sequence(const SequenceReport& report, Output& out);
nlohmann::ordered_json sequence_json(const SequenceReport& report);

}  // namespace tpx::cli
