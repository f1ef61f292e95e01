// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/layout/express.hpp"

#include <string>
#include <utility>
#include <vector>

namespace tpx {

/// Why a framework that builds the model of its configuration `written` does not get the model whose weights
/// `expressed` holds: parameters that the model lacks or that nobody stores, other sizes, or a setting of the source
/// (`config`) that the framework cannot follow. Empty when the two are the same model.
std::string misfit(const Expressed& expressed, const Config& config, const Config& written);

/// Settings that the family calls needed and that `written` lacks, each with what the framework would assume.
std::vector<std::pair<std::string, std::string>> missing_settings(const Expressed& expressed, const Config& written);

}  // namespace tpx
