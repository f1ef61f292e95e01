// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace tpx::cuda {

/// How many NVLinks of the GPUs at these PCI addresses are up, as NVIDIA's management library says; zeros where it is
/// not there or does not know.
std::vector<int> count_nvlinks(const std::vector<std::string>& buses);

}  // namespace tpx::cuda
