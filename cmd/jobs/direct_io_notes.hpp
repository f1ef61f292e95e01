// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/exec/execute.hpp"

#include <fmt/format.h>

#include <string>
#include <string_view>
#include <vector>

namespace tpx::cli {

/// A note if a file system of `output` refused direct writes on any host; otherwise nothing.
inline std::vector<std::string> direct_io_notes(const ExecReport& report, std::string_view output) {
    if (!report.refused_direct) return {};
    return {fmt::format(
        "{}: the file system does not support direct I/O (O_DIRECT); data was written through the page cache, "
        "which can take longer",
        output)};
}

}  // namespace tpx::cli
