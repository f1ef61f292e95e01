// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string_view>

namespace tpx::formats::cells {

/// The number of GPUs in a list of Slurm's resources, such as "gpu:a100:8(S:0-1)", "gres/gpu=8" or
/// "cpu=64,gres/gpu:a100=8,node=1"; unset if no entry of the list is for GPUs. Throws Error if a count is not a whole
/// number.
std::optional<int> gres_gpus(std::string_view text);

/// The number of hosts in such a list, as in "gres/gpu=16,node=2"; unset if it has none. Throws Error if it is not a
/// whole number.
std::optional<int> tres_hosts(std::string_view text);

}  // namespace tpx::formats::cells
