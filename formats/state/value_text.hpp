// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/encodings/torch/value.hpp"
#include "lib/layout/config.hpp"

#include <optional>
#include <string>
#include <string_view>

namespace tpx::formats {

/// A float as short as it can be read back, with a point or an exponent; or "nan", "inf", "-inf".
std::string real_text(double value);

/// `text` in quotes, as JSON spells it.
std::string quoted_text(std::string_view text);

/// None, a flag, an int, a float or a string as Python prints it, strings as quoted_text(); nothing for other values.
std::optional<std::string> scalar_text(torch::Value value);

/// Little-endian two's complement in decimal; of an int of more than 512 bytes, its size.
std::string big_integer_text(std::string_view bytes);

/// What a key of a dict is called: text as it is, ints in decimal, all else by what it is.
std::string key_text(torch::Value key);

/// "N bytes DIGEST" of `bytes`.
std::string bytes_text(std::string_view bytes);

/// A value of a configuration as Python prints it.
std::string config_text(const ConfigValue& value);

/// MODULE.NAME of a class, function or dtype.
std::string global_text(torch::Value value);

}  // namespace tpx::formats
