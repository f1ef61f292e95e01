// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/layout/express.hpp"

#include <string>
#include <utility>
#include <vector>

namespace tpx {

/// Why the model that a framework builds from the configuration `written` is not the one whose weights `expressed`
/// contains: parameters that the model or the checkpoint lacks, other sizes, or a setting of the source (`config`) that
/// the framework cannot follow. Empty if the two are the same model.
std::string config_mismatch(const ExpressedState& expressed, const Config& config, const Config& written);

/// Settings that the family lists as needed and that `written` lacks, each with the value that the framework would
/// assume.
std::vector<std::pair<std::string, std::string>> missing_settings(const ExpressedState& expressed,
                                                                  const Config& written);

}  // namespace tpx
