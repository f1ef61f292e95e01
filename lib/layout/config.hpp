// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <variant>

namespace tpx {

/// One value of a model's configuration.
using ConfigValue = std::variant<std::nullptr_t, bool, std::int64_t, double, std::string>;

/// A model's configuration as flat keys: the values in a config.json or in Megatron's args.
using Config = std::map<std::string, ConfigValue, std::less<>>;

}  // namespace tpx
