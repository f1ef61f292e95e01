// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/files/plan/plan_file.hpp"
#include "lib/change/certificate.hpp"
#include "lib/check/check_plan.hpp"

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

namespace tpx::formats {

/// The result of checking the plan in a file.
struct CheckedPlan {
    PlanFile content;
    std::optional<std::uint64_t> catalogue;  ///< catalogue_digest of the plan's checkpoint; unset: it has a model
    std::optional<Certificate> moves;        ///< of a checkpoint's pieces
    std::optional<PlanCheck> hosts;          ///< the check of placement and transfers; unset: there are no hosts
    std::string fault;                       ///< the first claim of the plan that is wrong; empty: none is

    bool holds() const { return fault.empty(); }
};

/// Reads the file at `path` and proves its plan again, with code that shares only the reading of the file with the
/// planner; see check_plan() for `sample`. Throws Error if the file is not a plan, with Exit::no if its bytes have
/// changed since it was written. A wrong claim of the plan is a fault, not an Error.
CheckedPlan check_plan_file(const std::filesystem::path& path, std::optional<std::size_t> sample = {});

}  // namespace tpx::formats
