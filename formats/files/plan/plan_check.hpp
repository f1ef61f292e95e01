// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/files/plan/plan_file.hpp"
#include "lib/change/certificate.hpp"
#include "lib/check/check.hpp"

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

namespace tpx::formats {

/// What was proven about the plan in a file.
struct CheckedPlan {
    PlanFile content;
    std::optional<std::uint64_t> catalogue;  ///< catalogue_digest of the checkpoint it is for; none: made from a model
    std::optional<Certificate> moves;        ///< of a checkpoint's pieces
    std::optional<PlanCheck> hosts;          ///< what goes where; none: the file names no hosts
    std::string fault;                       ///< the first thing that does not hold; empty: everything does

    bool holds() const { return fault.empty(); }
};

/// Reads the file at `path` and proves its plan anew, with code that shares nothing with the planner but the reading of
/// the file; see check_plan for `sample`. Throws Error, with Exit::no when bytes have changed since the file was
/// written, when it is no plan; what it says wrongly is a fault.
CheckedPlan check_plan_file(const std::filesystem::path& path, std::optional<std::size_t> sample = {});

}  // namespace tpx::formats
