// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/conversion.hpp"

#include <string>

namespace tpx::formats {

/// A file for --rules that describes the model of `source`, of no known family, with comments about what to judge. It
/// is checked to explain the source's tensors; if it does not when tensor parallelism cuts layers, none is cut.
std::string draft_rules(const Source& source);

}  // namespace tpx::formats
