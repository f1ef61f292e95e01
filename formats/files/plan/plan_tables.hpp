// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/files/plan/plan_file.hpp"
#include "lib/check/tables.hpp"

namespace tpx::formats {

/// A model as tables, and back. from_tables() relies on fault_of() of lib/check/check_shape.hpp having found nothing.
ModelTables to_tables(const ModelState& model);
ModelState from_tables(const ModelTables& tables, std::string name, const HostTables& hosts);

/// Hosts, ranks, parcels, placement and relocation as tables, and back. `model`, if not null, provides the dtypes of
/// roles.
HostTables to_tables(const Change& plan, const ModelState* model);
Change from_tables(const HostTables& tables);

/// What ranks hold, for lib/check.
HeldTables held_tables(const FileChange& plan);

/// Everything that lib/check examines.
PlanTables to_tables(const PlanFile& content);

/// The content of a file, with its tables as stored.
struct StoredPlan {
    PlanFile content;
    PlanTables tables;
    std::uint64_t request_digest = 0;
};

inline constexpr std::string_view plan_schema = "tpx.plan/3";

/// Same as read_plan_file(), with the tables.
StoredPlan read_stored_plan(const std::filesystem::path& path);

}  // namespace tpx::formats
