// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/encodings/torch/value.hpp"
#include "lib/layout/config.hpp"

#include <optional>
#include <string>
#include <string_view>

namespace tpx::formats {

/// The shortest text that reads back as `value`, with a point or an exponent; or "nan", "inf", "-inf".
std::string real_text(double value);

/// `text` in quotes, as JSON spells it.
std::string quoted_text(std::string_view text);

/// None, a bool, an int, a float or a string as Python prints it, strings as quoted_text(); unset for other values.
std::optional<std::string> scalar_text(torch::Value value);

/// An int in little-endian two's complement as decimal text; only its size if it has more than 512 bytes.
std::string big_integer_text(std::string_view bytes);

/// The text of a dict's key: strings as they are, ints in decimal, tuples of these, descriptions of all other values.
std::string key_text(torch::Value key);

/// "N bytes DIGEST" of `bytes`.
std::string bytes_text(std::string_view bytes);

/// A value of a configuration as Python prints it.
std::string config_text(const ConfigValue& value);

/// MODULE.NAME of a class, function or dtype.
std::string global_text(torch::Value value);

}  // namespace tpx::formats
