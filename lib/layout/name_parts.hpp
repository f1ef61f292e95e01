// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tpx {

/// The parts of a tensor's name between its dots.
std::vector<std::string> name_parts(std::string_view name);

/// Whether a part is the number of a layer or expert: digits only.
bool is_number(std::string_view part);

}  // namespace tpx
