// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/layout/family.hpp"

#include <toml++/toml.h>

namespace tpx {

/// Adds the models that the tables [[outer]] of a file of rules describe to `family`. Throws Error "line N: cause".
void read_outer(const toml::table& table, Family& family);

}  // namespace tpx
