// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/core/dtype.hpp"
#include "lib/layout/express.hpp"
#include "lib/layout/layout.hpp"

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace tpx::formats {

/// The numbers of a list of whole numbers that is stored as text, "0,2"; unset for other values.
std::optional<std::vector<std::int64_t>> whole_numbers(const ConfigValue& value);

/// The text of a config.json for transformers with what is known about `expressed`; empty if its family has no rules
/// for it. Omits architectures if settings that the family requires are unknown.
std::string make_config_json(const ExpressedState& expressed, const Config& config);

/// The dtype of most elements of the weights; unset if no weight contains real numbers.
std::optional<DType> most_common_dtype(const Reading& reading, std::span<const Tensor> tensors);

/// `config_json` with `dtype` in place of the dtype that it names, if any.
std::string with_dtype(const std::string& config_json, DType dtype);

/// `config_json` with the values of its top-level scalars replaced by those that `settings` contains.
std::string with_settings(const std::string& config_json, const Config& settings);

/// Megatron's args for `layout`, and, if the source had none, for the model. Lists of whole numbers are written in
/// brackets, "[0,1]".
Config make_args(const ExpressedState& expressed, const Layout& layout, const Config& config, bool with_model);

}  // namespace tpx::formats
