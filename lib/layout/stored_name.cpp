// SPDX-License-Identifier: Apache-2.0
#include "lib/layout/stored_name.hpp"

#include "lib/layout/dims.hpp"

#include <algorithm>

namespace tpx {

std::string stored_name(const Reading& reading, const std::string& tensor, NameIndices indices) {
    for (const Rule& rule : reading.dialect->rules) {
        if (rule.alias() || std::ranges::find(rule.expression.parts, tensor) == rule.expression.parts.end()) continue;
        if (const auto numbers = numbers_in(rule.name, indices, reading.dims))
            return rule.name.name(*numbers, reading.prefixed);
    }
    return tensor;
}

}  // namespace tpx
