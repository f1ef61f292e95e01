// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/torch/value.hpp"

#include <memory>

namespace tpx::formats {

/// The root of `document`, which lives as long as the pointer.
std::shared_ptr<const torch::Value> kept(torch::Document document);

/// A copy of `value` that lives as long as the pointer.
std::shared_ptr<const torch::Value> kept_copy(torch::Value value);

}  // namespace tpx::formats
