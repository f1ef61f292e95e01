// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/layout/config.hpp"
#include "lib/layout/family.hpp"

#include <set>
#include <span>
#include <string>

namespace tpx::formats {

/// The configuration keys that can have an effect: those that the rules of `families` ask for, those that tpx itself
/// asks for, and those of `config`, which is the configuration of a checkpoint.
std::set<std::string> known_settings(std::span<const Family> families, const Config& config);

}  // namespace tpx::formats
