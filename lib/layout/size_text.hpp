// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/layout/reading.hpp"

#include <set>
#include <string>
#include <string_view>

namespace tpx {

/// A formula of sizes in terms of configuration keys, with its value: "head_dim = 7", "hidden_size /
/// num_attention_heads = 3"; a number alone if it is one.
std::string size_text(const Reading& reading, std::string_view formula);

/// The settings of the configuration, each as "KEY = VALUE", from which the size of `letter` follows.
std::set<std::string> size_settings(const Reading& reading, char letter);

}  // namespace tpx
