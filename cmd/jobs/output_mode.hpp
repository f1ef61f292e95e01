// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/core/read_record.hpp"

#include <filesystem>

namespace tpx::cli {

/// The permission bits that an output must not grant to group and others, as a mask for umask(2): those that the files
/// of the checkpoint at `source`, their folders, or an existing `out` do not grant. Contains no bits of the owner.
unsigned denied_modes(const ReadRecord& record, const std::filesystem::path& source, const std::filesystem::path& out);

}  // namespace tpx::cli
