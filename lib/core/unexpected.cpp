// SPDX-License-Identifier: Apache-2.0
#include "lib/core/unexpected.hpp"

#include <new>

namespace tpx {

Error unexpected(const std::exception& error) {
    if (const auto* known = dynamic_cast<const Error*>(&error)) return *known;
    if (dynamic_cast<const std::bad_alloc*>(&error) != nullptr) return failure("out of memory");
    return failure("internal error: {}; please report this", error.what());
}

}  // namespace tpx
