// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/core/read_record.hpp"

#include <filesystem>

namespace tpx::cli {

/// The bits of permission that an output may not give to group and others, as umask(2) takes them: those that the files
/// of the checkpoint at `source`, their folders, or what `out` is now do not give. The owner's are left alone.
unsigned denied_modes(const ReadRecord& record, const std::filesystem::path& source, const std::filesystem::path& out);

}  // namespace tpx::cli
