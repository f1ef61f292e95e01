// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/files/profile/table.hpp"

#include <cstddef>

namespace tpx::formats {

/// Merges the rows of the components of heterogeneous jobs in a table of Slurm's sacct, "102+0" and "102+1", to one row
/// "102" with the sums of their cores and GPUs, because they run at the same time. If their GPU types differ, the row
/// has none. Returns the number of merged jobs; other tables stay as they are.
std::size_t merge_components(Table& table);

}  // namespace tpx::formats
