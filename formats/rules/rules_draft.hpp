// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/source.hpp"

#include <string>

namespace tpx::formats {

/// The text of a rules file for the model of `source`, whose family is unknown, with comments about what to review. The
/// draft is checked against the tensors of `source`; if it does not explain them, a draft without tensor parallelism is
/// returned instead.
std::string draft_rules(const Source& source);

}  // namespace tpx::formats
