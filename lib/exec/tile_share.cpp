// SPDX-License-Identifier: Apache-2.0
#include "lib/exec/tile_share.hpp"

#include <algorithm>

namespace tpx {

bool ShareOfRanges::may_take(ByteRange bytes) const {
    const auto range = std::ranges::upper_bound(ranges_, bytes.begin, {}, &ByteRange::end);
    return range != ranges_.end() && range->begin < bytes.end;
}

bool ShareOfRanges::takes(ByteRange tile) const {
    const auto range = std::ranges::upper_bound(ranges_, tile.begin, {}, &ByteRange::end);
    return range != ranges_.end() && range->begin <= tile.begin && tile.end <= range->end;
}

}  // namespace tpx
