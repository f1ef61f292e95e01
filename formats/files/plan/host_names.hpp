// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tpx::formats {

/// Expands a list such as "n[001-003,7],login,gpu[0-1]", as Slurm writes lists of hosts; leading zeros of a range's
/// first number are kept. Throws Error (usage) if brackets or ranges are incomplete, or if there are more than a
/// million names.
std::vector<std::string> expand_host_names(std::string_view list);

/// A list that expand_host_names() expands to `names` in the same order; consecutively numbered names share brackets.
std::string fold_host_names(const std::vector<std::string>& names);

}  // namespace tpx::formats
