// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/files/plan/plan_file.hpp"
#include "lib/check/tables.hpp"

namespace tpx::formats {

/// A model as tables, and back. from_tables() relies on fault_of() of lib/check/shape.hpp having found nothing.
ModelTables to_tables(const ModelState& model);
ModelState from_tables(const ModelTables& tables, std::string name, const HostTables& hosts);

/// Hosts, ranks, parcels, placement and relocation as tables, and back. `model` gives the dtypes of roles, where there
/// is one.
HostTables to_tables(const Change& plan, const ModelState* model);
Change from_tables(const HostTables& tables);

/// What ranks hold, for lib/check.
HeldTables held_tables(const FileChange& plan);

/// All that lib/check looks at.
PlanTables to_tables(const PlanFile& content);

/// A file as it was read, with its tables as they stand there.
struct StoredPlan {
    PlanFile content;
    PlanTables tables;
    std::uint64_t request_digest = 0;
};

inline constexpr std::string_view plan_schema = "tpx.plan/3";

/// As read_plan_file.
StoredPlan read_stored_plan(const std::filesystem::path& path);

}  // namespace tpx::formats
