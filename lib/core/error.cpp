// SPDX-License-Identifier: Apache-2.0
#include "lib/core/error.hpp"

namespace tpx {

std::string without_nuls(std::string text) {
    for (std::size_t at = text.find('\0'); at != text.npos; at = text.find('\0', at)) text.replace(at, 1, "\\x00");
    return text;
}

}  // namespace tpx
