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

/// The numbers of a list of whole numbers that is kept as text, "0,2"; nothing for other values.
std::optional<std::vector<std::int64_t>> whole_numbers(const ConfigValue& value);

/// The text of a config.json for transformers, made of what is known of `expressed`; empty when its family says nothing
/// of it. It names no architectures when the family needs to know settings that nobody told.
std::string make_config_json(const Expressed& expressed, const Config& config);

/// The dtype of most elements of the weights; nothing without weights of real numbers.
std::optional<DType> usual_dtype(const Reading& reading, std::span<const Tensor> tensors);

/// `config_json` with the dtype that the weights will have, where it names one.
std::string with_dtype(const std::string& config_json, DType dtype);

/// `config_json` with the values that `settings` has for scalars that it names.
std::string with_settings(const std::string& config_json, const Config& settings);

/// Megatron's args for `layout`, and, if the source had none, for the model. Lists of whole numbers stand in brackets,
/// "[0,1]".
Config make_args(const Expressed& expressed, const Layout& layout, const Config& config, bool with_model);

}  // namespace tpx::formats
