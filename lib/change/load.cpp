// SPDX-License-Identifier: Apache-2.0
#include "lib/change/load.hpp"

namespace tpx {

BytesBySource& BytesBySource::operator+=(const BytesBySource& more) {
    needed += more.needed;
    kept += more.kept;
    local += more.local;
    same_host += more.same_host;
    other_host += more.other_host;
    storage += more.storage;
    return *this;
}

}  // namespace tpx
