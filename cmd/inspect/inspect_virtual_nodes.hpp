// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/source.hpp"

#include <filesystem>

namespace tpx::cli {

/// Adds to the layout of `source`, which is at `checkpoint`, the virtual nodes of the job. The boxes of tensors do not
/// depend on them: their number, and how many each rank runs, is taken from the data position in the checkpoint or, if
/// it has none, the number is taken from the names of their state.
void add_virtual_nodes(formats::Source& source, const std::filesystem::path& checkpoint);

}  // namespace tpx::cli
