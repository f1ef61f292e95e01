// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/exec/byte_ranges.hpp"

#include <cstdint>
#include <span>

namespace tpx {

/// Which tiles of a job a rank takes. Bytes of a job are counted in the order of its tiles, which does not depend on
/// the limits of their sizes, so that a tile is a range of these bytes.
class TileShare {
public:
    virtual ~TileShare() = default;

    /// Whether the rank may take a tile within `bytes`.
    virtual bool may_take(ByteRange bytes) const = 0;

    /// Whether the rank takes the tile that consists of these bytes.
    virtual bool takes(ByteRange tile) const = 0;

    /// A number for the part of the job that contains the last tile taken. Only tiles of one part are processed
    /// together, so that what is read and written at once does not depend on which rank takes which part.
    virtual std::uint64_t part() const { return 0; }
};

/// The tiles that are within one of some ranges.
class ShareOfRanges : public TileShare {
public:
    /// `ranges` are sorted, disjoint, and outlive this.
    explicit ShareOfRanges(std::span<const ByteRange> ranges) : ranges_{ranges} {}

    bool may_take(ByteRange bytes) const override;
    bool takes(ByteRange tile) const override;

private:
    std::span<const ByteRange> ranges_;
};

}  // namespace tpx
