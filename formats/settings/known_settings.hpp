// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/layout/config.hpp"
#include "lib/layout/families.hpp"

#include <set>
#include <span>
#include <string>
#include <string_view>

namespace tpx::formats {

/// The configuration keys that can have an effect: those that the rules of `families` ask for, those that tpx itself
/// asks for, and those of `config`, which is the configuration of a checkpoint.
std::set<std::string> known_settings(const Families& families, const Config& config);

/// What the setting `key` must be: "a whole number" for a size in the rules of `families`, "a number" for some settings
/// that tpx itself asks for; empty if other values have a meaning as well.
std::string_view kind_of_number(std::string_view key, const Families& families);

/// Whether `value` is of a kind that kind_of_number() returned. A list of whole numbers, with one for each layer, and
/// "null", which removes a size, are accepted as sizes.
bool is_number(const ConfigValue& value, std::string_view kind);

}  // namespace tpx::formats
