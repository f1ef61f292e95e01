// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace tpx::cuda {

/// How many NVLinks of the GPUs at these PCI addresses are up, as NVIDIA's management library says; zeros where it is
/// not there or does not know.
std::vector<int> count_nvlinks(const std::vector<std::string>& buses);

/// Whether the GPUs at two PCI addresses reach each other by NVLink, directly or through switches, by their positions
/// in `buses`; false where NVIDIA's management library is not there or does not know.
std::vector<std::vector<bool>> find_nvlinks(const std::vector<std::string>& buses);

}  // namespace tpx::cuda
