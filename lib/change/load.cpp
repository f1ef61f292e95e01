// SPDX-License-Identifier: Apache-2.0
#include "lib/change/load.hpp"

namespace tpx {

Bytes& Bytes::operator+=(const Bytes& more) {
    needed += more.needed;
    kept += more.kept;
    local += more.local;
    same_host += more.same_host;
    other_host += more.other_host;
    storage += more.storage;
    return *this;
}

}  // namespace tpx
