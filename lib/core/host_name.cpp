// SPDX-License-Identifier: Apache-2.0
#include "lib/core/host_name.hpp"

#include <unistd.h>

#include <array>

namespace tpx {

std::string host_name() {
    std::array<char, 256> name{};
    ::gethostname(name.data(), name.size() - 1);
    return name.data();
}

}  // namespace tpx
