// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tpx::formats {

/// The names that a list such as "n[001-003,7],login,gpu[0-1]" stands for, as Slurm writes lists of hosts: zeros in
/// front of a range's first number are kept. Throws Error (usage) when brackets or ranges are not whole, or when it
/// stands for more than a million names.
std::vector<std::string> expand_host_names(std::string_view list);

/// A list of `names` in their order that expand_host_names() takes apart again; names that count up share brackets.
std::string fold_host_names(const std::vector<std::string>& names);

}  // namespace tpx::formats
