// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/core/box.hpp"
#include "lib/layout/layout.hpp"
#include "lib/layout/model.hpp"

#include <vector>

namespace tpx {

/// A part of an axis, and which tensor-parallel part and which shard of it that is; -1: this axis is not cut by that.
struct AxisCut {
    Interval interval;
    int part = -1;
    int shard = -1;
};

/// The cuts of one axis, ascending; they tile it, none is empty.
using Cuts = std::vector<AxisCut>;

/// How tensors of `kind` are cut into `parts` for tensor parallelism and each of these, along `shard_axis` or axis 0,
/// into `shards`. One entry an axis. Precondition: parts divides the axis, or it is padded.
std::vector<Cuts> cuts_of(const TensorClass& kind, int parts, int shards, int shard_axis);

/// `size` cut into `n` equal parts, with these as tensor-parallel parts. Precondition: n divides it.
Cuts equal_cuts(Index size, int n);

/// A part of an axis that both layouts leave whole.
struct SharedCut {
    Interval interval;
    AxisCut from;  ///< what the old layout makes of the axis there
    AxisCut to;    ///< what the new layout makes of it

    bool recut() const { return from.interval != to.interval; }
};

/// All parts of an axis that are bounded by `from` or `to`: a + b - gcd(a, b) of them for equal cuts. Both tile the
/// same axis.
std::vector<SharedCut> merge(const Cuts& from, const Cuts& to);

}  // namespace tpx
