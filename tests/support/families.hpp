// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/rules/rules.hpp"
#include "lib/layout/family.hpp"

#include <vector>

namespace tpx::test {

/// The families of the built-in rules.
inline const std::vector<Family>& families() {
    static const std::vector<Family> all = formats::load_families({});
    return all;
}

}  // namespace tpx::test
