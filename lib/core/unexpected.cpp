// SPDX-License-Identifier: Apache-2.0
#include "lib/core/unexpected.hpp"

#include <new>
#include <system_error>

namespace tpx {

Error unexpected(const std::exception& error) {
    if (const auto* known = dynamic_cast<const Error*>(&error)) return *known;
    if (dynamic_cast<const std::bad_alloc*>(&error) != nullptr) return failure("out of memory");
    const auto* system = dynamic_cast<const std::system_error*>(&error);
    if (system != nullptr && system->code() == std::errc::resource_unavailable_try_again)
        return failure("cannot start a thread: the limit on processes is reached (ulimit -u, pids.max)");
    return failure("internal error: {}; please report this", error.what());
}

}  // namespace tpx
