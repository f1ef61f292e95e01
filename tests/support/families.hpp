// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/rules/rules.hpp"
#include "lib/layout/families.hpp"

namespace tpx::test {

/// The families of the built-in rules.
inline const Families& families() {
    static const Families all = formats::load_families({});
    return all;
}

}  // namespace tpx::test
