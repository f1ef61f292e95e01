// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/model/run.hpp"

#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace tpx::cli {

/// What the times of `runs` imply if it cannot be right: more flop/s than a GPU called `gpu` (empty: any GPU) can
/// reach, or less than 0.1 % of it in most runs. Nothing if the model's sequence length is unknown.
std::optional<std::string> implausible_times(const ModelSize& model, std::span<const Run> runs, std::string_view gpu);

}  // namespace tpx::cli
