// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/encodings/torch/value.hpp"

#include <initializer_list>
#include <string_view>

namespace tpx::torch {

/// A copy of dict `value` without some keys.
Value without_keys(Document& document, Value value, std::initializer_list<std::string_view> keys);

}  // namespace tpx::torch
