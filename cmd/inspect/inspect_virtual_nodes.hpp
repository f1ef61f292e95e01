// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/source.hpp"

#include <filesystem>

namespace tpx::cli {

/// Adds the virtual nodes of the job to the layout of `source`, which is at `checkpoint`. Their number, and how many of
/// them each rank runs, come from the data position in the checkpoint; without one, their number comes from the names
/// of their state. The boxes of tensors do not depend on virtual nodes.
void add_virtual_nodes(formats::Source& source, const std::filesystem::path& checkpoint);

}  // namespace tpx::cli
