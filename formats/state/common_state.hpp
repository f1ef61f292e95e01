// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/encodings/torch/value.hpp"
#include "lib/layout/config.hpp"

#include <cstdint>
#include <optional>

namespace tpx::formats {

/// The scalars among the entries of a dict.
Config scalars_of(torch::Value dict);

/// The scalars among the attributes of `state`'s entry "args", or among its values if it is a dict; empty without args.
Config args_of(torch::Value state);

/// `state`'s entry "iteration"; unset if it has none.
std::optional<std::int64_t> iteration_in(torch::Value state);

/// `state`, a dict, with `args` set in its entry "args", which is created if missing, and with `iteration`. Settings
/// that are already equal keep their types.
torch::Value with_args(torch::Document& document, torch::Value state, const Config& args, std::int64_t iteration);

}  // namespace tpx::formats
